"""Uploaded recordings: decodes audio of any format from memory, and cuts it at pauses.

Time and memory have limits: a small file may hold hours of silence.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from estimator_asr.saved_model import statuses
from estimator_asr.transcripts import pauses
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, containers

NAME = "file"  # of the field of the form; the name of the client's file is not used
# CPU time of decoding: at least, and per second of audio, which takes 0.02 in the slowest format.
_DECODING_SECONDS, _SECONDS_PER_SECOND = containers.CPU_SECONDS, containers.CPU_SECONDS_PER_SECOND


class Upload(NamedTuple):
    """A decoded recording: its segments, none if it has no speech, and its length in seconds."""

    pieces: list[pauses.Piece]
    seconds: float


def measure(content: bytes, sample_rate: int, max_seconds: float) -> float:
    """Returns the seconds of a recording by its header, `max_seconds` if it does not say.

    Raises:
        errors.UserError: it is not audio, empty or too long.
    """
    with _open(content, sample_rate, max_seconds) as blocks:
        return max_seconds if blocks.seconds is None else blocks.seconds


def read(content: bytes, sample_rate: int, max_seconds: float) -> Upload:
    """Decodes a recording at a sample rate in Hz.

    Raises:
        errors.UserError: it is not audio, damaged, empty, too long, has NaN or Inf or is far too loud, or
            takes too long to decode.
    """
    with _open(content, sample_rate, max_seconds) as blocks:
        checked = _Checked(blocks, sample_rate, max_seconds)
        pieces = list(pauses.cut(checked, sample_rate))
        return Upload(pieces, checked.num_samples / sample_rate)


@contextlib.contextmanager
def _open(content: bytes, sample_rate: int, max_seconds: float) -> Iterator[audio_files.AudioBlocks]:
    if not content:
        raise errors.UserError(f"{NAME}: is empty, expected audio; send a recording")
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        with contextlib.closing(audio_files.AudioBlocks(NAME, sample_rate, file, max_seconds)) as blocks:
            if blocks.seconds is not None and blocks.seconds > max_seconds:
                raise _too_long(max_seconds)
            yield blocks


class _Checked:
    """Blocks of audio, of which there may be only so many; counts their samples."""

    def __init__(self, blocks: audio_files.AudioBlocks, sample_rate: int, max_seconds: float):
        self._blocks, self._sample_rate, self._max_seconds = blocks, sample_rate, max_seconds
        self._max_samples = max_seconds * sample_rate
        self.num_samples = 0

    def __iter__(self) -> Iterator[np.ndarray]:
        used, blocks = 0.0, iter(self._blocks)
        while True:
            started = time.thread_time()  # without voice activity detection, and however busy the server is
            block = next(blocks, None)
            if block is None:
                return
            used += time.thread_time() - started
            self.num_samples += len(block)
            if self.num_samples > self._max_samples:
                raise _too_long(self._max_seconds)
            self._check_time(used)
            if not np.isfinite(block).all() or np.max(np.abs(block)) > statuses.LOUDEST_PEAK:
                raise errors.UserError(f"{NAME}: {statuses.SENTENCES[statuses.NOT_FINITE]}")
            yield block

    def _check_time(self, used: float) -> None:
        seconds = self.num_samples / self._sample_rate
        limit = _DECODING_SECONDS + _SECONDS_PER_SECOND * seconds
        if used > limit:
            raise errors.UserError(
                f"{NAME}: takes more than {limit:.0f} s of CPU time for {seconds:.0f} s of audio; convert it "
                "to WAV or FLAC"
            )


def _too_long(max_seconds: float) -> errors.UserError:
    return errors.UserError(f"{NAME}: audio is longer than {max_seconds:g} s; send a shorter one")
