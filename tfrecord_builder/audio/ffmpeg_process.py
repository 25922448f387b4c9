"""Decodes a recording with FFmpeg (PyAV) in a separate process, which containers.py starts.

The process's time, memory and output are limited, because even a small file may contain hours of audio.
"""

from __future__ import annotations

import array
import contextlib
import functools
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO

from tfrecord_builder.audio import stream_ends

# Limit on CPU time: a constant plus an amount per second of audio. Decoding 1 s usually takes 0.002 s.
CPU_SECONDS, CPU_SECONDS_PER_SECOND = 5.0, 0.2
STALLED_SECONDS = 60  # decoding is aborted if no packet has been read for this long
MAX_MEMORY_BYTES, MAX_RAW_BYTES = 1 << 30, 1 << 34  # the second limits the decoded samples
JOINED = ("mp3", "ogg", "flac")  # formats whose duration is known only after decoding
GAP = "the recording has a gap of"
_BUFFER_BYTES = 1 << 20
_SLACK_SECONDS = 0.2  # the header's duration may exceed the actual duration by this much
_TIMED = ("mov", "matroska", "mpegts", "asf")  # formats that store a timestamp with each packet
_INTERRUPTED = ("mp3", "mpegts")  # formats that may contain other data between frames
_JITTER_SECONDS = 0.1  # smaller gaps come from rounding, or from samples that encoders add at the start
_MAX_GAP_SECONDS = 3600  # if a gap is longer, its timestamps must be wrong
_CODECS = (
    "aac,aac_latm,ac3,alac,amrnb,amrwb,flac,mp2float,mp3float,opus,speex,vorbis,wmalossless,wmapro,wmav1,"
    "wmav2"
)
# Keeps FFmpeg from opening other files, network connections and video decoders.
_OPTIONS = {"protocol_whitelist": "none", "codec_whitelist": _CODECS}


def run(format_name: str, descriptor: str, max_seconds: str) -> None:
    """Decodes standard input and writes float32 samples to a file descriptor.

    Prints two lines: first the sample rate, number of channels and duration in seconds, then a description
    of what is missing from the file (empty if nothing is missing).
    """
    try:
        import av
    except ImportError as error:
        sys.exit(f"{error}; run pip install 'estimator-asr[containers]'")
    with contextlib.suppress(ValueError, OSError):  # macOS cannot limit memory
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_RAW_BYTES, MAX_RAW_BYTES))
    _extend_time(0)
    limit, seconds, problem = float(max_seconds), math.inf, ""
    if format_name not in JOINED:
        with _open_track(av, format_name) as (container, stream):
            seconds, problem = _measure(container, stream, limit)
            print(stream.rate, stream.channels, seconds, flush=True)
    with (
        _open_track(av, format_name) as (container, stream),
        open(int(descriptor), "wb", _BUFFER_BYTES) as raw,
    ):
        rate, channels = stream.rate, stream.channels
        problem = _write(container, stream, raw, seconds, limit, av) or problem
        if format_name in JOINED:
            print(rate, channels, raw.tell() / rate / channels / 4)
    print(problem)


@contextlib.contextmanager
def _open_track(av, format_name: str) -> Iterator[tuple]:
    with open(0, "rb", closefd=False) as file:
        file.seek(0)
        with av.open(file, format=format_name, metadata_errors="replace", options=_OPTIONS) as container:
            streams = [stream for stream in container.streams.audio if stream.codec_context and stream.rate]
            if not streams:
                sys.exit("no audio track that can be decoded")
            yield container, streams[0]


def _extend_time(seconds: float, used_seconds: float = 0.0) -> None:
    limit = math.ceil(used_seconds + CPU_SECONDS + CPU_SECONDS_PER_SECOND * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    signal.alarm(STALLED_SECONDS)


class _Clock:
    """Watches the timestamps of a recording's packets or frames, and the process's time, during one pass."""

    def __init__(self, container, max_seconds: float):
        names = container.format.name.split(",")
        self._is_timed, self._max_seconds = not set(_TIMED).isdisjoint(names), max_seconds
        self._used_seconds, self._extended, self._time_base = time.process_time(), 0.0, None
        # The first timestamp of a broadcast can have any value.
        self._zero = 0.0 if {"mov", "matroska"} & set(names) else (container.start_time or 0) / 1e6

    def find_gap(self, item, position: float) -> float:
        """Returns the gap in seconds from `position`, where the last samples ended, to a packet or frame."""
        if not self._is_timed or item.pts is None:
            return 0.0
        gap = self.to_seconds(item, item.pts) - self._zero - position
        if gap < -_JITTER_SECONDS:  # times jump back where recordings were joined
            self._zero += gap
        if gap > min(self._max_seconds, _MAX_GAP_SECONDS) and position < self._max_seconds:
            sys.exit(f"{GAP} {gap:.1f} s at {position:.2f} s; split the file there")
        return gap if gap > _JITTER_SECONDS else 0.0

    def to_seconds(self, item, ticks: int) -> float:
        """Converts ticks to seconds; one Fraction per packet would take longer than the decoding."""
        self._time_base = self._time_base or item.time_base.as_integer_ratio()
        return ticks * self._time_base[0] / self._time_base[1]

    def extend_time(self, position: float) -> None:
        """Extends the time limits of the process after each second of audio."""
        if position >= self._extended + 1:
            self._extended = position
            _extend_time(position, self._used_seconds)


def _measure(container, stream, max_seconds: float) -> tuple[float, str]:
    """Returns the duration in seconds and a description of what is missing (empty if nothing is).

    The duration is the one in the header or the total of the packets, whichever is longer; packets after
    max_seconds are not counted. Packets are counted because FFmpeg would estimate the duration from the bit
    rate, and the header may be wrong.
    """
    promised, position, clock = 0.0, 0.0, _Clock(container, max_seconds)
    if "mov" in container.format.name and stream.duration:
        promised = float((stream.duration + max(stream.start_time or 0, 0)) * stream.time_base)
    # A Matroska header has only one duration, which may be that of a video track.
    if "matroska" in container.format.name and container.duration and len(container.streams) == 1:
        promised = container.duration / 1e6
    for packet in container.demux(stream):
        if position > max_seconds:
            return max(promised, position), ""
        position += clock.find_gap(packet, position) + clock.to_seconds(packet, packet.duration or 0)
        clock.extend_time(position)
    is_short = position < promised - _SLACK_SECONDS
    problem = f"it ends at {position:.2f} s instead of {promised:.2f} s" if is_short else ""
    return max(promised, position), problem


def _write(container, stream, raw: BinaryIO, seconds: float, max_seconds: float, av) -> str:
    """Writes the samples to `raw`. Returns a description of what is missing at the end, or ""."""
    rate, layout, clock, position = stream.rate, stream.layout, _Clock(container, max_seconds), 0.0
    sample_bytes, converters = 4 * stream.channels, {(rate, layout.name, "fltp"): _interleave}
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            if container.format.name in _INTERRUPTED:
                continue
            if packet.pos + packet.size < os.fstat(0).st_size:
                raise
            return "it ends within a frame"
        for frame in frames:
            gap = clock.find_gap(frame, position)
            if gap:  # a hole in the file is read as silence
                raw.seek(round(gap * rate) * sample_bytes, os.SEEK_CUR)
            kind = frame.sample_rate, frame.layout.name, frame.format.name  # joined files may differ in this
            if kind not in converters:
                converters[kind] = functools.partial(_resample, av.AudioResampler("flt", layout, rate))
            raw.writelines(converters[kind](frame))
            position = raw.tell() / sample_bytes / rate
        clock.extend_time(position)
        if position > min(2 * seconds, max_seconds) + 1:
            if seconds < max_seconds:
                sys.exit(f"the audio continues past the expected end at {seconds:.2f} s")
            return ""
    is_cut = container.format.name == "ogg" and not stream_ends.has_end(0)
    return "the Ogg stream has no end marker" if is_cut else ""


def _resample(resampler, frame) -> list[bytes]:
    blocks = resampler.resample(frame)
    return [bytes(block.planes[0])[: 4 * block.layout.nb_channels * block.samples] for block in blocks]


def _interleave(frame) -> list[memoryview | array.array]:
    """Joins the channels of a frame of float32 samples; a resampler would take several times longer."""
    planes = [memoryview(plane)[: 4 * frame.samples] for plane in frame.planes]
    if len(planes) == 1:
        return planes
    samples = array.array("f", bytes(len(planes) * len(planes[0])))
    for channel, plane in enumerate(planes):
        samples[channel :: len(planes)] = array.array("f", plane.tobytes())
    return [samples]
