"""The features of a record made again from its recording."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tfrecord_builder import audio, files, frontend, recordings

# Another processor sums in another order; and one step of the stored type may lie between the results.
TOLERANCE = 1e-3


class Result(NamedTuple):
    """How far a record is from its recording.

    Attributes:
        difference: the largest of any value; None where nothing could be compared.
        note: why not; empty if it could.
        mismatch: what is different beyond rounding; empty if nothing is.
    """

    difference: Optional[float] = None
    note: str = ""
    mismatch: str = ""


class Extractor:
    """Compares records with their recordings; a context manager."""

    def __init__(self, config: frontend.FrontendConfig, fbank_dtype: str):
        """Takes how the features were made and are stored."""
        self._config = config
        self._dtype = np.dtype(fbank_dtype)

    def __enter__(self) -> Extractor:
        with tf.Graph().as_default() as graph:
            self._waveform = tf.compat.v1.placeholder(tf.float32, [None])
            self._fbank = tf.cast(frontend.extract(self._waveform, self._config), self._dtype)
        options = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        self._session = tf.compat.v1.Session(graph=graph, config=options)
        return self

    def __exit__(self, *_) -> None:
        self._session.close()

    def compare(self, record: np.ndarray, recording: Optional[recordings.Recording]) -> Result:
        """Compares stored features, float32 [num_frames, num_bins], with those of the recording."""
        if recording is None:
            return Result(note="the data does not name its recording")
        if recording.is_augmented:
            return Result(note=f"a changed copy of {recording.path}, so its values are others")
        part = (recording.start_seconds, recording.seconds, recording.channel)
        try:
            waveform = audio.read_audio(recording.path, self._config.sample_rate, np.inf, *part)
        except audio.AudioError as error:
            return Result(note=str(error))
        made = self._session.run(self._fbank, {self._waveform: waveform})
        return _compare(record, made, recording)


def _compare(record, made, recording):
    source = f"its recording {recording.path}{_change(recording)}"
    if record.shape != made.shape:
        return Result(
            mismatch=f"{source} gives features of {list(made.shape)}, expected {list(record.shape)}"
        )
    step = np.spacing(np.maximum(np.abs(record.astype(made.dtype)), np.abs(made))).astype(np.float32)
    difference = np.abs(record - made.astype(np.float32))
    frame, place = np.unravel_index(np.argmax(difference - step), record.shape)
    if difference[frame, place] - step[frame, place] <= TOLERANCE:
        return Result(float(difference.max()))
    got, want = record[frame, place], made[frame, place]
    mismatch = f"bin {place} of frame {frame} is {got:g} in the record, expected {want:g} as {source} gives"
    return Result(float(difference.max()), mismatch=mismatch)


def _change(recording):
    now = files.size_and_time(recording.path)[0]
    return "" if recording.num_bytes in (None, now) else f" (now {now} bytes, {recording.num_bytes} before)"
