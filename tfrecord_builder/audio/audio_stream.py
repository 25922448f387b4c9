"""Decodes an open audio file, or a segment of it, by libsndfile, and notices truncation."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO, Optional

import numpy as np
import soundfile

# libsndfile's log of a WAV whose header has a longer length than the file: "data : 64000 (should be 19169)".
_SHORT_WAV = re.compile(r"^data : (\d+) \(should be (\d+)\)$", re.MULTILINE)
# Programs that write WAV to a pipe write this length or more: SoX 0x7ffff000, rounded down to whole samples
# (wav.c), others 0x7fffffff or 0xffffffff.
_UNKNOWN_LENGTH = 0x7FFF0000
_UNKNOWN_SAMPLES = 2**63 - 1  # libsndfile's count for a FLAC that was written to a pipe
_MP3_SLACK_SAMPLES = 2 * 1152  # two MP3 frames: the count in its header may include padding
_BLOCK = 1 << 20  # samples of all channels: most files are one block
_SMALL_BLOCK = 1 << 14  # for FLAC, so that the log of libFLAC tells damage from truncation
_FLAC_END = "STREAM_DECODER_END_OF_STREAM"  # its log of a file that ends within a frame
# How far a segment may exceed the end: Kaldi, featbin/extract-segments.cc, --max-overshoot.
_OVERSHOOT_SECONDS = 0.5
_STDERR_LOCK = threading.Lock()


class Reader:
    """An open file that is read once: whole, a segment, or in blocks, for recordings of any length.

    Attributes:
        sample_rate: in Hz.
        seconds: duration by the header; None if it has none.
        problem: what is missing, once all has been read (empty if nothing is).

    Samples are float32 [num_samples, num_channels].
    """

    def __init__(self, file: BinaryIO):
        self._file = file
        with _quiet_mp3(file):
            self._stream = _Stream(file.fileno(), closefd=False)
        self.sample_rate, num_samples = self._stream.samplerate, self._stream.frames
        self.seconds = None if num_samples == _UNKNOWN_SAMPLES else num_samples / max(1, self.sample_rate)
        self.problem = ""

    def read(self, max_seconds: float) -> np.ndarray:
        """Reads to the end, or somewhat beyond max_seconds; memory does not depend on the header."""
        is_flac = self._stream.format == "FLAC"
        blocks, num_samples = [], 0
        for block in self.read_blocks(_SMALL_BLOCK if is_flac else _BLOCK // self._stream.channels):
            blocks.append(block)
            num_samples += len(block)
            if num_samples > max_seconds * self.sample_rate:
                break
        return blocks[0] if len(blocks) == 1 else np.concatenate([self._no_samples(), *blocks])

    def read_segment(self, max_seconds: float, start_seconds: float, seconds: Optional[float]) -> np.ndarray:
        """Reads a segment (None for all after its start), or one sample more than max_seconds of it."""
        start = round(start_seconds * self.sample_rate)
        left = self._stream.frames - start
        num_samples = left if seconds is None else round(seconds * self.sample_rate)
        if left <= 0 or num_samples - left > _OVERSHOOT_SECONDS * self.sample_rate:
            self.problem = (
                f"it has {self._stream.frames / self.sample_rate:.2f} s, expected the segment that begins at "
                f"{start_seconds:.2f} s" + ("" if seconds is None else f" and lasts {seconds:.2f} s")
            )
            return self._no_samples()
        num_samples = int(min(num_samples, left, max_seconds * self.sample_rate + 1))
        with _quiet_mp3(self._file):
            self._stream.seek(start)
            samples = self._stream.read(num_samples, dtype="float32", always_2d=True)
        if len(samples) < num_samples:
            self.problem = f"it has {len(samples)} samples, expected {num_samples}"
        return samples

    def read_blocks(self, block_samples: int = _SMALL_BLOCK) -> Iterator[np.ndarray]:
        """Yields blocks up to the end of the file."""
        num_samples = 0
        while True:
            # Not past the end: libsndfile would report an Ogg as truncated.
            block = self._read(min(block_samples, self._stream.frames - num_samples))
            if not len(block):
                break
            num_samples += len(block)
            yield block
        self.problem = self.problem or _truncation(self._stream, num_samples)

    def _read(self, num_samples: int) -> np.ndarray:
        try:
            with _quiet_mp3(self._file):
                return self._stream.read(num_samples, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError:
            if _FLAC_END not in self._stream.extra_info:
                raise
            self.problem = "the FLAC stream has no end"
            return self._no_samples()

    def _no_samples(self) -> np.ndarray:
        return np.empty([0, self._stream.channels], np.float32)


@contextlib.contextmanager
def _quiet_mp3(file: BinaryIO) -> Iterator[None]:
    """Discards standard error while an MP3 is read: libmpg123 writes warnings there.

    The descriptor belongs to the whole process, hence the lock.
    """
    start = os.pread(file.fileno(), 3, 0)
    is_mp3 = start == b"ID3" or (start[:1] == b"\xff" and start[1:2] >= b"\xe0")  # a tag, or a frame
    if not is_mp3 or sys.stderr is None:  # without it, descriptor 2 may be any file
        yield
        return
    with _STDERR_LOCK, open(os.devnull, "wb") as nowhere:
        stderr = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


class _Stream(soundfile.SoundFile):
    """A file that is read sequentially: soundfile would seek after every block, which fails in some FLAC."""

    def seekable(self) -> bool:
        return False


def _truncation(stream: soundfile.SoundFile, num_samples: int) -> str:
    """Returns what a stream lacks compared with its header, or empty."""
    short_wav = _SHORT_WAV.search(stream.extra_info)
    if short_wav and int(short_wav[1]) < _UNKNOWN_LENGTH:
        return f"it has {short_wav[2]} bytes of samples, expected {short_wav[1]}"
    if "without an End-Of-Stream flag" in stream.extra_info:
        return "the Ogg stream has no end"
    if stream.frames != _UNKNOWN_SAMPLES and stream.frames - num_samples > _MP3_SLACK_SAMPLES:
        return f"it has {num_samples} samples, expected {stream.frames}"
    return ""
