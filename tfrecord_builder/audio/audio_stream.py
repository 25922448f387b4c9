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
_BLOCK_SAMPLES = 1 << 20  # of all channels: most files are one block
_FLAC_BLOCK_SAMPLES = 1 << 14  # small, so that the log of libFLAC tells damage from truncation
_FLAC_CUT = "the FLAC stream has no end"
_FLAC_END = "STREAM_DECODER_END_OF_STREAM"  # its log of a file that ends within a frame
# How far a segment may exceed the end: Kaldi, featbin/extract-segments.cc, --max-overshoot.
_OVERSHOOT_SECONDS = 0.5
_STDERR_LOCK = threading.Lock()


def read(
    file: BinaryIO, max_seconds: float, segment: Optional[tuple[float, Optional[float]]]
) -> tuple[np.ndarray, str, int]:
    """Reads an open file, or a segment (start_seconds, seconds) of it, and stops after max_seconds.

    Returns:
        float32 [num_samples, num_channels], what is missing (empty if nothing is), and the sample rate in Hz.
    """
    with _quiet_mp3(file), _Stream(file.fileno(), closefd=False) as stream:
        rate, limit = stream.samplerate, max_seconds * stream.samplerate
        try:
            read_samples = _read_blocks if segment is None else _read_segment
            return (*read_samples(stream, limit, *(segment or ())), rate)
        except soundfile.LibsndfileError:
            if segment or _FLAC_END not in stream.extra_info:
                raise
            return _no_samples(stream), _FLAC_CUT, rate


class BlockReader:
    """An open file as blocks of samples, for recordings of any length; it is read once.

    Attributes:
        sample_rate: in Hz.
        seconds: duration by the header; None if it has none.
        problem: what is missing, once all blocks have been read (empty if nothing is).
    """

    def __init__(self, file: BinaryIO):
        self._file = file
        with _quiet_mp3(file):
            self._stream = _Stream(file.fileno(), closefd=False)
        self.sample_rate, num_samples = self._stream.samplerate, self._stream.frames
        self.seconds = None if num_samples == _UNKNOWN_SAMPLES else num_samples / max(1, self.sample_rate)
        self.problem = ""

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yields float32 [num_samples, num_channels] up to the end of the file."""
        num_samples = 0
        while True:
            block = self._read(min(_FLAC_BLOCK_SAMPLES, self._stream.frames - num_samples))
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
            self.problem = _FLAC_CUT
            return _no_samples(self._stream)


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


def _read_segment(
    stream: soundfile.SoundFile, limit: float, start_seconds: float, seconds: Optional[float]
) -> tuple[np.ndarray, str]:
    """Reads a segment, up to one sample more than the limit; returns samples and what is missing."""
    start = round(start_seconds * stream.samplerate)
    left = stream.frames - start
    num_samples = left if seconds is None else round(seconds * stream.samplerate)
    if left <= 0 or num_samples - left > _OVERSHOOT_SECONDS * stream.samplerate:
        length = stream.frames / stream.samplerate
        return _no_samples(stream), (
            f"it has {length:.2f} s, expected the segment that begins at {start_seconds:.2f} s"
            + ("" if seconds is None else f" and lasts {seconds:.2f} s")
        )
    stream.seek(start)
    num_samples = int(min(num_samples, left, limit + 1))
    samples = stream.read(num_samples, dtype="float32", always_2d=True)
    problem = f"it has {len(samples)} samples, expected {num_samples}"
    return samples, "" if len(samples) == num_samples else problem


def _read_blocks(stream: soundfile.SoundFile, max_samples: float) -> tuple[np.ndarray, str]:
    """Reads to the end or max_samples; memory does not depend on the header. Returns as _read_segment."""
    block_samples = _FLAC_BLOCK_SAMPLES if stream.format == "FLAC" else _BLOCK_SAMPLES // stream.channels
    blocks, num_samples = [], 0
    while num_samples <= max_samples:
        # Not past the end: libsndfile would report an Ogg as truncated.
        size = min(block_samples, stream.frames - num_samples)
        block = stream.read(size, dtype="float32", always_2d=True)
        if not len(block):
            break
        blocks.append(block)
        num_samples += len(block)
    samples = blocks[0] if len(blocks) == 1 else np.concatenate([_no_samples(stream), *blocks])
    return samples, _truncation(stream, num_samples)


def _no_samples(stream: soundfile.SoundFile) -> np.ndarray:
    return np.empty([0, stream.channels], np.float32)


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
