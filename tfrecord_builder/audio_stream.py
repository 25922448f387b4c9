"""An open audio file to samples, by libsndfile: all of it or a part, and how it falls short of its header."""

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

# libsndfile's log of a WAV whose header promises more than the file holds: "data : 64000 (should be 19169)".
_SHORT_WAV = re.compile(r"^data : (\d+) \(should be (\d+)\)$", re.MULTILINE)
# Programs that write WAV into a pipe put this or more where the length belongs: SoX 0x7ffff000, rounded down
# to whole samples (wav.c), others 0x7fffffff or 0xffffffff.
_UNKNOWN_LENGTH = 0x7FFF0000
_UNKNOWN_SAMPLES = 2**63 - 1  # libsndfile's count for a FLAC whose header, written into a pipe, has none
_MP3_SLACK_SAMPLES = 2 * 1152  # two MP3 frames: its header counts may include the encoder's own padding
_BLOCK_SAMPLES = 1 << 20  # of all channels together: most recordings are one block
_FLAC_FRAME_SAMPLES = 4096
# A segment may reach past the end so far: Kaldi, featbin/extract-segments.cc, --max-overshoot.
_OVERSHOOT_SECONDS = 0.5
_STDERR_LOCK = threading.Lock()


def read(
    file: BinaryIO, max_seconds: float, part: Optional[tuple[float, Optional[float]]]
) -> tuple[np.ndarray, int, str]:
    """Reads an open file, of which part is (start_seconds, seconds) or None for all.

    Returns:
      float32 [num_samples, num_channels], the rate in Hz, and how the file falls short of what its header
        says or of the part, or nothing.
    """
    with _quiet_mp3(file), _Stream(file.fileno(), closefd=False) as stream:
        rate, limit = stream.samplerate, max_seconds * stream.samplerate
        try:
            block_samples = max(_FLAC_FRAME_SAMPLES, _BLOCK_SAMPLES // stream.channels)
            found = _read_part(stream, *part, limit) if part else _read_blocks(stream, limit, block_samples)
            return found[0], rate, found[1]
        except soundfile.LibsndfileError:
            if part or stream.format != "FLAC":
                raise
    file.seek(0)
    with _Stream(file.fileno(), closefd=False) as stream:
        samples, problem = _read_flac_frames(stream, limit)
    return samples, rate, problem


@contextlib.contextmanager
def _quiet_mp3(file: BinaryIO) -> Iterator[None]:
    """Sends standard error nowhere while an MP3 is read.

    libmpg123 writes notes on odd files to the descriptor itself, and libsndfile has no setting against it.
    The descriptor belongs to the whole process, hence the lock.
    """
    start = os.pread(file.fileno(), 3, 0)
    is_mp3 = start == b"ID3" or (start[:1] == b"\xff" and start[1:2] >= b"\xe0")  # a tag, or a frame
    if not is_mp3 or sys.stderr is None:  # without one, its number may be that of any file
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
    """A file that is read from front to back.

    soundfile moves to where it is after every block, which fails at the end of a FLAC from a pipe: its header
    does not know the length.
    """

    def seekable(self) -> bool:
        return False


def _read_part(
    stream: soundfile.SoundFile, start_seconds: float, seconds: Optional[float], limit: float
) -> tuple[np.ndarray, str]:
    """Reads a part of a recording, and one sample more than the limit where it is longer than that.

    Returns:
      float32 [num_samples, num_channels], and how the recording falls short of the part, or nothing.
    """
    start = round(start_seconds * stream.samplerate)
    left = stream.frames - start
    wanted = left if seconds is None else round(seconds * stream.samplerate)
    if left <= 0 or wanted - left > _OVERSHOOT_SECONDS * stream.samplerate:
        length = stream.frames / stream.samplerate
        return _nothing(stream), (
            f"it has {length:.2f} s, expected the part that begins at {start_seconds:.2f} s"
            + ("" if seconds is None else f" and lasts {seconds:.2f} s")
        )
    stream.seek(start)
    wanted = int(min(wanted, left, limit + 1))
    samples = stream.read(wanted, dtype="float32", always_2d=True)
    return samples, "" if len(samples) == wanted else f"it has {len(samples)} samples, expected {wanted}"


def _read_blocks(
    stream: soundfile.SoundFile, max_samples: float, block_samples: int
) -> tuple[np.ndarray, str]:
    """Reads to the end, or past max_samples; what the header says of the length sizes no memory.

    Returns:
      float32 [num_samples, num_channels], and how they fall short of the file's own header, or nothing.
    """
    blocks, num_samples = [], 0
    while num_samples <= max_samples:
        # No more than there is: libsndfile reports an Ogg that is read beyond its end as cut.
        wanted = min(block_samples, stream.frames - num_samples)
        block = stream.read(wanted, dtype="float32", always_2d=True)
        if not len(block):
            break
        blocks.append(block)
        num_samples += len(block)
    samples = blocks[0] if len(blocks) == 1 else np.concatenate([_nothing(stream), *blocks])
    return samples, _truncation(stream, num_samples)


def _read_flac_frames(stream: soundfile.SoundFile, max_samples: float) -> tuple[np.ndarray, str]:
    """Reads a FLAC that cannot be read in large blocks, so that the log ends at the frame that fails."""
    try:
        return _read_blocks(stream, max_samples, _FLAC_FRAME_SAMPLES)
    except soundfile.LibsndfileError:
        if "STREAM_DECODER_END_OF_STREAM" not in stream.extra_info:  # else libFLAC met the end within a frame
            raise
        return _nothing(stream), "the FLAC stream has no end"


def _nothing(stream: soundfile.SoundFile) -> np.ndarray:
    return np.empty([0, stream.channels], np.float32)


def _truncation(stream: soundfile.SoundFile, num_samples: int) -> str:
    """Says how a stream that was read falls short of its own header, or nothing."""
    short_wav = _SHORT_WAV.search(stream.extra_info)
    if short_wav and int(short_wav[1]) < _UNKNOWN_LENGTH:
        return f"it has {short_wav[2]} bytes of samples, expected {short_wav[1]}"
    if "without an End-Of-Stream flag" in stream.extra_info:
        return "the Ogg stream has no end"
    if stream.frames != _UNKNOWN_SAMPLES and stream.frames - num_samples > _MP3_SLACK_SAMPLES:
        return f"it has {num_samples} samples, expected {stream.frames}"
    return ""
