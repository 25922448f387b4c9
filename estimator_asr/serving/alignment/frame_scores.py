"""Runs the acoustic model on segments, and stores the log probabilities in a temporary file.

Ten hours of speech yield about a million frames with a thousand log probabilities each. The frames take up
gigabytes in the file, but only a few bytes each in memory.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.exporting.saved_model import recogniser
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, vocabulary

_SIGNATURE = "log_probs"
_TYPE, _LOWEST = np.float16, -6e4  # lower log probabilities would become -inf


class FrameStore:
    """A temporary file of frames, which is deleted together with this object."""

    def __init__(self, num_classes: int):
        with _naming_disk():
            self._file = tempfile.TemporaryFile()
        weakref.finalize(self, self._file.close)
        self._bytes = num_classes * _TYPE().itemsize
        self._shape = -1, num_classes

    def add(self, log_probs: np.ndarray) -> int:
        """Stores frames, float [num_frames, num_classes]; returns the index of the first one."""
        with _naming_disk():
            first = self._file.seek(0, os.SEEK_END) // self._bytes
            self._file.write(np.maximum(log_probs, _LOWEST).astype(_TYPE).tobytes())
            self._file.flush()
        return first

    def read(self, first: int, num_frames: int) -> np.ndarray:
        """Returns frames, float32 [num_frames, num_classes]."""
        self._file.seek(first * self._bytes)
        frames = np.frombuffer(self._file.read(num_frames * self._bytes), _TYPE)
        return frames.reshape(self._shape).astype(np.float32)


@contextlib.contextmanager
def _naming_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.UserError(
            f"{tempfile.gettempdir()}: the model's outputs cannot be stored ({error.strerror}); free "
            "some disk space, or set TMPDIR to a directory on another disk"
        ) from error


class SegmentScores(NamedTuple):
    """The model's outputs for a segment: frames in a store, and the tokens of CTC's best path."""

    store: FrameStore
    first: int  # index of the first frame in the store
    num_frames: int
    seconds: float  # per frame
    tokens: Sequence[str]
    places: np.ndarray  # int [num_tokens], frame of the segment in which each token begins
    vocabulary: vocabulary.Vocabulary


class FrameScorer:
    """The acoustic model of an export, in place of the recogniser that transcriber.transcribe runs."""

    def __init__(self, versions: Sequence[recogniser.LoadedVersion]):
        """`versions` has one loaded export; raises errors.UserError if it is from an earlier release."""
        version = versions[0]
        if _SIGNATURE not in version.definitions:
            raise errors.UserError(
                f"{version.version_dir} was exported by an earlier release, without the signature "
                f"{_SIGNATURE}; export the model again with python -m estimator_asr.export"
            )
        self._model = version.find(_SIGNATURE)
        path = os.path.join(version.version_dir, "assets", dataset_info.TOKENS_FILE)
        self._vocabulary = vocabulary.Vocabulary.load(path)
        self._store = FrameStore(len(self._vocabulary.tokens) + 1)

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, list]:
        """Returns status and scores (a SegmentScores) of each segment in a batch."""
        values = self._model.fetch(batch)
        rows = zip(values["log_probs"], values["num_frames"], values["frame_seconds"])
        scores = [self._listen(log_probs[:count], float(seconds)) for log_probs, count, seconds in rows]
        return {"status": [status.decode() for status in values["status"]], "scores": scores}

    def _listen(self, log_probs, seconds):
        best = np.argmax(log_probs, axis=1) if len(log_probs) else np.zeros(0, int)
        begins = np.flatnonzero((best != np.roll(best, 1)) | (np.arange(len(best)) == 0))
        places = begins[best[begins] < len(self._vocabulary.tokens)]
        tokens = [self._vocabulary.tokens[i] for i in best[places]]
        first = self._store.add(log_probs)
        return SegmentScores(self._store, first, len(best), seconds, tokens, places, self._vocabulary)
