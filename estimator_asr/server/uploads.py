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

from estimator_asr.serving import statuses
from estimator_asr.transcripts import pauses
from tfrecord_builder import audio, errors

NAME = "file"  # of the field of the form; the name of the client's file is not used
_DECODING_SECONDS = 20.0


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
def _open(content: bytes, sample_rate: int, max_seconds: float) -> Iterator[audio.AudioBlocks]:
    if not content:
        raise errors.UserError(f"{NAME}: is empty, expected audio; send a recording")
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        blocks = audio.AudioBlocks(NAME, sample_rate, file)
        if blocks.seconds is not None and blocks.seconds > max_seconds:
            raise _too_long(max_seconds)
        yield blocks


class _Checked:
    """Blocks of audio, of which there may be only so many; counts their samples."""

    def __init__(self, blocks: audio.AudioBlocks, sample_rate: int, max_seconds: float):
        self._blocks, self._max_seconds = blocks, max_seconds
        self._max_samples = max_seconds * sample_rate
        self.num_samples = 0

    def __iter__(self) -> Iterator[np.ndarray]:
        end = time.monotonic() + _DECODING_SECONDS
        for block in self._blocks:
            self.num_samples += len(block)
            if self.num_samples > self._max_samples:
                raise _too_long(self._max_seconds)
            if time.monotonic() > end:
                raise errors.UserError(
                    f"{NAME}: takes more than {_DECODING_SECONDS:g} s to decode; send a shorter one"
                )
            if not np.isfinite(block).all() or np.max(np.abs(block)) > statuses.LOUDEST_PEAK:
                raise errors.UserError(f"{NAME}: {statuses.SENTENCES[statuses.NOT_FINITE]}")
            yield block


def _too_long(max_seconds: float) -> errors.UserError:
    return errors.UserError(f"{NAME}: audio is longer than {max_seconds:g} s; send a shorter one")
