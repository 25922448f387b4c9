"""Decodes recordings with FFmpeg (PyAV): those of telephones and browsers (MP4, WebM, AAC, AMR), WMA,
MPEG-TS, and MP3, Ogg and FLAC files that libsndfile cannot read to the end.

FFmpeg runs in a separate process with limited time and memory, because damaged files have crashed it and
small files may hold hours of audio.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

from tfrecord_builder.audio import stream_ends

# Limit of CPU time: a base, and an addition per second of audio, whose decoding usually takes 0.002 s.
CPU_SECONDS, CPU_SECONDS_PER_SECOND = 5.0, 0.2
_PROGRAM = "import sys; from tfrecord_builder.audio import containers; containers.run(*sys.argv[1:])"
_STALLED_SECONDS = 60  # decoding is aborted after this time without a packet
_MAX_MEMORY_BYTES, _MAX_RAW_BYTES = 1 << 30, 1 << 33
_SLACK_SECONDS = 0.2  # a header may exceed the actual duration by this much
JOINED = ("mp3", "ogg", "flac")  # formats whose duration is known only after decoding
_TIMED = ("mov", "matroska", "mpegts", "asf")  # formats whose packets carry the time of their recording
_INTERRUPTED = ("mp3", "mpegts")  # formats that may hold other data between their frames
_JITTER_SECONDS = 0.1  # smaller gaps come from rounding, or from samples that an encoder adds at the start
_MAX_GAP_SECONDS = 3600  # a longer gap can only be an error in the times
# FFmpeg's name of each format, and a pattern of its first bytes (after ID3 tags). Formats without a name are
# read by libsndfile only.
_STARTS = {
    "": rb"RIFF|RIFX|RF64|BW64|FORM|caff|\.snd",
    "mov": rb".{4}(ftyp|moov|mdat|wide|free|skip)",
    "matroska": rb"\x1a\x45\xdf\xa3",
    "amr": rb"#!AMR(-WB)?\n",
    "asf": rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "mpegts": rb"G.{187}G.{187}G|.{4}G.{191}G.{191}G",
    "ogg": rb"OggS",
    "flac": rb"fLaC",
}
# Two frames with equal first bytes, maybe after zeros or a part of a frame. Layer 0 is ADTS, 1 to 3 are MP3.
_FRAMES = re.compile(
    rb"(?P<aac>\xff[\xf0\xf1\xf8\xf9].).{4,8189}?(?P=aac)"
    rb"|(?P<mp3>\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff])[\x10-\xef].{20,2880}?(?P=mp3)",
    re.DOTALL,
)
_CODECS = (
    "aac,aac_latm,ac3,alac,amrnb,amrwb,flac,mp2float,mp3float,opus,speex,vorbis,wmalossless,wmapro,wmav1,"
    "wmav2"
)
# Keeps FFmpeg from opening other files, network connections and video decoders.
_OPTIONS = {"protocol_whitelist": "none", "codec_whitelist": _CODECS}
_GAP, _JOIN_AS_WAV = "nothing was recorded for", "; decode each stream and join the results as WAV"
_SIGNALS = dict.fromkeys(
    [-signal.SIGXCPU, -signal.SIGALRM], "decoding takes too long; convert it to WAV or FLAC"
)


class DecodingError(Exception):
    """A file cannot be decoded; the message continues a sentence that begins with the file's path."""


class ContainerReader:
    """A file that FFmpeg is decoding, with the interface of audio_stream.AudioReader.

    `seconds` is the duration from the header, or that of all packets if the header has none. `problem` is set
    after the samples have been read.
    """

    rest = warning = ""

    def __init__(self, process: subprocess.Popen, raw: BinaryIO, why: str, why_damaged: str):
        self._process, self._raw, self.problem = process, raw, ""
        self._why, self._why_damaged = why, why_damaged
        head = process.stdout.readline()
        rate, channels, seconds = head.split() if head[:1].isdigit() else self._finish(head)
        self.sample_rate, self._channels, self.seconds = int(rate), int(channels), float(seconds)

    def look_ahead(self) -> None:
        """Does nothing: FFmpeg decodes the whole file."""

    def read(self, *segment):
        """Reads a segment as Reader.read does. Raises DecodingError, or OSError if the disk is full."""
        reader = self._open()
        samples = reader.read(*segment)
        self.problem = self.problem or reader.problem
        return samples

    def read_blocks(self) -> Iterator:
        """Waits until the process has ended, then yields blocks of float32 [num_samples, num_channels]."""
        yield from self._open().read_blocks()

    def _open(self):
        from tfrecord_builder.audio import audio_stream  # takes 0.1 s; the decoding process does not need it

        self.problem = self._finish()
        self._raw.seek(0)
        return audio_stream.AudioReader(self._raw, self.sample_rate, self._channels)

    def _finish(self, head: bytes = b"") -> str:
        text = (head + self._process.stdout.read()).decode(errors="replace").strip()
        code = self._process.wait()
        for error in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if os.strerror(error) in text:
                raise OSError(error, os.strerror(error))
        if code:  # output of several lines is a traceback
            problem = _SIGNALS.get(code) or ("" if "\n" in text else text)
            if problem.startswith(_GAP):
                raise DecodingError(problem)
            raise DecodingError(self._why + (f" ({problem})" if problem else self._why_damaged))
        return text


def find_format(read: Callable[[int, int], bytes]) -> str:
    """Returns FFmpeg's name of a file's format, or an empty string; read(count, offset) returns its bytes."""
    start = 0
    while (head := read(10, start))[:3] == b"ID3" and len(head) == 10:
        start += 10 + sum((byte & 127) << 7 * (9 - place) for place, byte in enumerate(head[6:], 6))
    head = read(1 << 16, start)
    for name, pattern in _STARTS.items():
        if re.match(b"(?s)" + pattern, head):
            return name
    frames = _FRAMES.search(head)
    return frames.lastgroup if frames else ""


@contextlib.contextmanager
def decode(file: BinaryIO, format_name: str, max_seconds: float, why: str) -> Iterator[ContainerReader]:
    """Starts decoding an open file up to max_seconds or slightly more; error messages begin with `why`."""
    is_joined = stream_ends.is_joined(file, format_name.upper())
    if is_joined and format_name == "flac":  # FFmpeg leaves out a part of joined FLAC files
        raise DecodingError(f"{why}{_JOIN_AS_WAV}")
    with tempfile.TemporaryFile(buffering=0) as raw:
        words = [sys.executable, "-c", _PROGRAM, format_name, str(raw.fileno()), str(max_seconds)]
        options = {"stdin": file, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        root = pathlib.Path(__file__).resolve().parents[2]
        with subprocess.Popen(words, cwd=root, pass_fds=[raw.fileno()], **options) as process:
            try:
                yield ContainerReader(
                    process, raw, why, _JOIN_AS_WAV if is_joined else " (damaged or truncated)"
                )
            finally:
                process.kill()


def run(format_name: str, descriptor: str, max_seconds: str) -> None:
    """Decodes standard input and writes float32 samples to a file descriptor.

    Prints sample rate, number of channels and seconds in one line, and in the next what the file lacks.
    """
    try:
        import av
    except ImportError as error:
        sys.exit(f"{error}; run pip install 'estimator-asr[containers]'")
    with contextlib.suppress(ValueError, OSError):  # macOS cannot limit memory
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_RAW_BYTES, _MAX_RAW_BYTES))
    _extend_time(0)
    limit, seconds, problem = float(max_seconds), math.inf, ""
    if format_name not in JOINED:
        with _open_track(av, format_name) as (container, stream):
            seconds, problem = _measure(container, stream, limit)
            print(stream.rate, stream.channels, seconds, flush=True)
    with _open_track(av, format_name) as (container, stream), open(int(descriptor), "wb") as raw:
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


def _extend_time(seconds: float) -> None:
    limit = math.ceil(CPU_SECONDS + CPU_SECONDS_PER_SECOND * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    signal.alarm(_STALLED_SECONDS)


class _Clock:
    """Detects pauses in a recording from the timestamps of its packets or frames."""

    def __init__(self, container, max_seconds: float):
        names = container.format.name.split(",")
        self._is_timed, self._max_seconds = not set(_TIMED).isdisjoint(names), max_seconds
        # The first timestamp of a broadcast can have any value.
        self._zero = 0.0 if {"mov", "matroska"} & set(names) else (container.start_time or 0) / 1e6

    def find_gap(self, item, position: float) -> float:
        """Returns the seconds of silence between `position`, the end of the samples so far, and `item`."""
        if not self._is_timed or item.pts is None:
            return 0.0
        gap = float(item.pts * item.time_base) - self._zero - position
        if gap < -_JITTER_SECONDS:  # another recording was appended
            self._zero += gap
        if gap > min(self._max_seconds, _MAX_GAP_SECONDS) and position < self._max_seconds:
            sys.exit(f"{_GAP} {gap:.1f} s after {position:.2f} s; cut the recording there")
        return gap if gap > _JITTER_SECONDS else 0.0


def _measure(container, stream, max_seconds: float) -> tuple[float, str]:
    """Returns the duration in seconds and a description of what is missing (empty if nothing is).

    The duration is that of the header or of all packets, whichever is longer; counting stops at max_seconds.
    Packets are counted because FFmpeg would estimate it from the bit rate, and a header may be wrong.
    """
    promised, position, clock = 0.0, 0.0, _Clock(container, max_seconds)
    if "mov" in container.format.name and stream.duration:
        promised = float((stream.duration + max(stream.start_time or 0, 0)) * stream.time_base)
    # A Matroska header has one duration, which may be that of the video if there is one.
    if "matroska" in container.format.name and container.duration and len(container.streams) == 1:
        promised = container.duration / 1e6
    for packet in container.demux(stream):
        if position > max_seconds:
            return max(promised, position), ""
        position += clock.find_gap(packet, position) + float((packet.duration or 0) * packet.time_base)
        _extend_time(position)
    is_short = position < promised - _SLACK_SECONDS
    return max(promised, position), f"it has {position:.2f} s, expected {promised:.2f}" if is_short else ""


def _write(container, stream, raw: BinaryIO, seconds: float, max_seconds: float, av) -> str:
    """Writes the samples to `raw`; returns what the end of the recording lacks, or an empty string."""
    rate, layout, clock, resamplers = stream.rate, stream.layout, _Clock(container, max_seconds), {}
    sample_bytes = 4 * stream.channels
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
            gap = clock.find_gap(frame, raw.tell() / sample_bytes / rate)
            raw.seek(round(gap * rate) * sample_bytes, os.SEEK_CUR)  # a hole in the file is silence
            kind = frame.sample_rate, frame.layout.name, frame.format.name  # can change in joined files
            if kind not in resamplers:
                resamplers[kind] = av.AudioResampler("flt", layout, rate)
            for block in resamplers[kind].resample(frame):
                raw.write(bytes(block.planes[0])[: sample_bytes * block.samples])
        position = raw.tell() / sample_bytes / rate
        _extend_time(position)
        if position > min(2 * seconds, max_seconds) + 1:
            if seconds < max_seconds:
                sys.exit(f"it continues after its end at {seconds:.2f} s")
            return ""
    is_cut = container.format.name == "ogg" and not stream_ends.has_end(0)
    return "the Ogg stream has no end marker" if is_cut else ""
