"""Recordings of telephones and browsers (MP4, WebM, AAC, AMR): FFmpeg decodes them to WAV, by PyAV.

A process of its own does so, within limits of time and memory: damaged files have crashed FFmpeg, and small
ones may hold hours.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterator
from typing import BinaryIO, Optional

# CPU time of decoding: at least, and per second of audio, which takes 0.002.
CPU_SECONDS, CPU_SECONDS_PER_SECOND = 5.0, 0.2
_PROGRAM = "import sys; from tfrecord_builder.audio import containers; containers.run(*sys.argv[1:])"
_STALLED_SECONDS = 60  # without a packet
_MAX_MEMORY_BYTES, _MAX_WAV_BYTES = 1 << 30, (1 << 32) - 1
_SLACK_SECONDS = 0.2  # of a duration in a header
_STARTS = {b"\x1a\x45\xdf\xa3": "matroska", b"#!AMR\n": "amr", b"#!AMR-WB\n": "amr"}
# FFmpeg opens no other files, no connections, and no decoder of video.
_OPTIONS = {"protocol_whitelist": "none", "codec_whitelist": "aac,alac,amrnb,amrwb,flac,mp3float,opus,vorbis"}
_SIGNALS = dict.fromkeys([-signal.SIGXCPU, -signal.SIGALRM], "it takes too long; convert it to WAV or FLAC")


class DecodingError(Exception):
    """A file cannot be decoded; the message continues a sentence that begins with its path."""


class Decoding:
    """A file that is being decoded; `problem`, what is missing, is known at its end, empty for nothing.

    The sample rate is in Hz; `seconds` are those of the header, or of all packets if it has none.
    """

    def __init__(self, process: subprocess.Popen, wav: BinaryIO):
        self._process, self._wav, self.problem = process, wav, ""
        head = process.stdout.readline()
        rate, seconds = head.split() if head[:1].isdigit() else self._finish(head)
        self.sample_rate, self.seconds = int(rate), float(seconds)

    def read_wav(self) -> BinaryIO:
        """Waits until the end; returns a WAV file. Raises DecodingError, or OSError if there is no space."""
        self.problem = self._finish()
        self._wav.seek(0)
        return self._wav

    def read_blocks(self) -> Iterator:
        """Yields float32 [num_samples, num_channels], as audio_stream.Reader."""
        from tfrecord_builder.audio import audio_stream  # takes 0.1 s, which the process does without

        yield from audio_stream.Reader(self.read_wav()).read_blocks()

    def _finish(self, head: bytes = b"") -> str:
        text = (head + self._process.stdout.read()).decode(errors="replace").strip()
        code = self._process.wait()
        for error in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if os.strerror(error) in text:
                raise OSError(error, os.strerror(error))
        if code:  # more than a line is a traceback
            problem = _SIGNALS.get(code) or ("damaged or truncated" if "\n" in text or not text else text)
            raise DecodingError(f"is not a readable MP4, WebM, AAC or AMR file ({problem})")
        return text


def find_format(head: bytes) -> str:
    """Returns FFmpeg's name of the format by the first 12 bytes; empty for what libsndfile has to read."""
    if head[4:8] == b"ftyp":
        return "mov"
    if head[:1] == b"\xff" and len(head) > 1 and head[1] & 0xF6 == 0xF0:  # ADTS: layer 0; MP3 has 1 to 3
        return "aac"
    return next((name for start, name in _STARTS.items() if head.startswith(start)), "")


@contextlib.contextmanager
def decode(file: BinaryIO, max_seconds: float) -> Iterator[Optional[Decoding]]:
    """Begins to decode an open file, to max_seconds or a little further; yields None for libsndfile's."""
    format_name = find_format(os.pread(file.fileno(), 12, 0))
    if not format_name:
        yield None
        return
    with tempfile.TemporaryFile(buffering=0) as wav:
        words = [sys.executable, "-c", _PROGRAM, format_name, str(wav.fileno()), str(max_seconds)]
        options = {"stdin": file, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        root = pathlib.Path(__file__).resolve().parents[2]
        with subprocess.Popen(words, cwd=root, pass_fds=[wav.fileno()], **options) as process:
            try:
                yield Decoding(process, wav)
            finally:
                process.kill()


def run(format_name: str, descriptor: str, max_seconds: str) -> None:
    """Decodes standard input to a WAV file; prints rate and seconds by the header, then what is missing."""
    try:
        import av
    except ImportError as error:
        sys.exit(f"{error}; run pip install 'estimator-asr[containers]'")
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_WAV_BYTES, _MAX_WAV_BYTES))
    _extend_time(0)
    with open(0, "rb") as file, open(int(descriptor), "wb") as wav:
        file.seek(0)
        with av.open(file, format=format_name, metadata_errors="replace", options=_OPTIONS) as container:
            print(_write(container, wav, float(max_seconds), av))


def _extend_time(seconds: float) -> None:
    limit = math.ceil(CPU_SECONDS + CPU_SECONDS_PER_SECOND * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    signal.alarm(_STALLED_SECONDS)


def _write(container, file: BinaryIO, max_seconds: float, av) -> str:
    """Returns what is missing."""
    stream = next((each for each in container.streams.audio if each.codec_context and each.rate), None)
    if stream is None:
        sys.exit("no audio track that can be decoded")
    seconds, end = _measure(container, stream, max_seconds), 0.0
    print(stream.rate, seconds, flush=True)
    resampler = av.AudioResampler("s16", stream.layout, stream.rate)
    with wave.open(file, "wb") as wav:
        wav.setparams((stream.channels, 2, stream.rate, 0, "NONE", ""))
        for packet in container.demux(stream):
            try:
                blocks = [block for frame in packet.decode() for block in resampler.resample(frame)]
            except av.error.FFmpegError:
                if packet.pos + packet.size < os.fstat(0).st_size:
                    raise
                return "it ends within a frame"
            for block in blocks:
                wav.writeframesraw(bytes(block.planes[0])[: 2 * stream.channels * block.samples])
            _extend_time(wav.tell() / stream.rate)
            if wav.tell() > (min(seconds, max_seconds) + 1) * stream.rate:
                if seconds < max_seconds:
                    sys.exit(f"it continues after its end at {seconds:.2f} s")
                return ""
            end = max(end, _end(packet))
    return f"it has {end:.2f} s, expected {seconds:.2f}" if end < seconds - _SLACK_SECONDS else ""


def _measure(container, stream, max_seconds: float) -> float:
    """Returns the seconds by the header or all packets, the longer; beyond max_seconds it stops.

    FFmpeg would estimate them by the bit rate, and a header may lie.
    """
    end = 0.0
    if "mov" in container.format.name and stream.duration:
        end = float(stream.duration * stream.time_base)
    if "matroska" in container.format.name and container.duration and len(container.streams) == 1:
        end = container.duration / 1e6  # with a video, that of the longer one
    for packet in container.demux(stream):
        if end > max_seconds:
            break
        end = max(end, _end(packet))
        _extend_time(end)
    if end:
        container.seek(0)
    return end


def _end(packet) -> float:
    return float(((packet.pts or 0) + (packet.duration or 0)) * packet.time_base)
