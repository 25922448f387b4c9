"""Decodes recordings with FFmpeg (PyAV): formats that phones and browsers record (MP4, WebM, AAC, AMR), WMA,
MPEG-TS, and MP3, Ogg and FLAC files that libsndfile cannot read to the end.

FFmpeg runs in a separate process (ffmpeg_process), because damaged files have crashed it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

from tfrecord_builder.audio import ffmpeg_process, stream_ends

_PROGRAM = "import sys; from tfrecord_builder.audio import ffmpeg_process as f; f.run(*sys.argv[1:])"
# FFmpeg's name for each format, and a pattern for the format's first bytes (after ID3 tags). The empty
# name is for formats that only libsndfile reads.
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
# Two frames with the same first bytes, possibly after zeros or a partial frame. Layer 0 in the frame header
# means ADTS (AAC); layers 1 to 3 mean MPEG audio such as MP3.
_FRAMES = re.compile(
    rb"(?P<aac>\xff[\xf0\xf1\xf8\xf9].).{4,8189}?(?P=aac)"
    rb"|(?P<mp3>\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff])[\x10-\xef].{20,2880}?(?P=mp3)",
    re.DOTALL,
)
# Formats in which reading a segment takes longer the later it begins.
SLOW = frozenset([*_STARTS, "aac", "mp3"]) - {"", "ogg", "flac"}
_JOIN_AS_WAV = "; decode each stream and join the results as WAV"
_SIGNALS = dict.fromkeys(
    [-signal.SIGXCPU, -signal.SIGALRM], "decoding takes too long; convert the file to WAV or FLAC"
)


class DecodingError(Exception):
    """Raised if a file cannot be decoded; the message completes a sentence that begins with the path."""


class ContainerReader:
    """Reads a file that FFmpeg is decoding; has the interface of audio_stream.AudioReader.

    `seconds` is the duration in the header, or the total duration of the packets if the total is longer or
    the header states no duration. `problem` is set once the samples have been read.
    """

    trailing_audio = warning = ""

    def __init__(self, process: subprocess.Popen, raw: BinaryIO, why: str, why_damaged: str):
        self._process, self._raw, self.problem = process, raw, ""
        self._why, self._why_damaged, self._missing = why, why_damaged, None
        head = process.stdout.readline()
        rate, channels, seconds = head.split() if head[:1].isdigit() else self._finish(head)
        self.sample_rate, self._channels, self.seconds = int(rate), int(channels), float(seconds)

    def look_ahead(self) -> None:
        """Does nothing, because FFmpeg always decodes the file to its end."""

    def read(self, *segment):
        """Reads a segment like AudioReader.read; raises DecodingError, or OSError if the disk is full."""
        reader = self._open()
        samples = reader.read(*segment)
        self.problem = self._wait() or reader.problem
        return samples

    def read_blocks(self) -> Iterator:
        """Waits for the process to end, then yields blocks, float32 [num_samples, num_channels]."""
        yield from self._open().read_blocks()

    def is_intact(self) -> bool:
        """Waits for the process; returns False if the file is damaged or truncated."""
        with contextlib.suppress(DecodingError):
            return not self._wait()
        return False

    @property
    def decoded_seconds(self) -> float:
        return os.fstat(self._raw.fileno()).st_size / (4 * self._channels * self.sample_rate)

    def _wait(self) -> str:
        if self._missing is None:
            self._missing = self._finish()
        return self._missing

    def _open(self):
        from tfrecord_builder.audio import audio_stream  # imported late because it takes 0.1 s

        self.problem = self._wait()
        self._raw.seek(0)
        return audio_stream.AudioReader(self._raw, self.sample_rate, self._channels)

    def _finish(self, head: bytes = b"") -> str:
        text = (head + self._process.stdout.read()).decode(errors="replace").strip()
        code = self._process.wait()
        for error in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if os.strerror(error) in text:
                raise OSError(error, os.strerror(error))
        if code:  # if the output has several lines, it is a traceback
            problem = _SIGNALS.get(code) or ("" if "\n" in text else text)
            if problem.startswith(ffmpeg_process.GAP):
                raise DecodingError(problem)
            raise DecodingError(self._why + (f" ({problem})" if problem else self._why_damaged))
        return text


def find_format(read: Callable[[int, int], bytes]) -> str:
    """Returns FFmpeg's name for a file's format, or ""; read(count, offset) returns bytes of the file."""
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
    """Yields a reader of a file's first max_seconds or slightly more; error messages begin with `why`."""
    is_joined = stream_ends.is_joined(file, format_name.upper())
    if is_joined and format_name == "flac":  # FFmpeg skips parts of concatenated FLAC files
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
