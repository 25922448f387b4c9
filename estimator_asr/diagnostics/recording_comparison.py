"""Compares the features of records with features extracted again from their recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tfrecord_builder import audio, files, frontend, recordings

# Another processor sums in another order; in addition, rounding to the stored type may differ by one step.
TOLERANCE = 1e-3


class Result(NamedTuple):
    """What the comparison found: a note on the recording, and a mismatch beyond rounding ("" for none)."""

    note: str
    mismatch: str = ""


def compare(
    pairs: Iterable[tuple[np.ndarray, Optional[recordings.Recording]]],
    config: frontend.FrontendConfig,
    fbank_dtype: str,
) -> Iterator[Result]:
    """Yields one result per record.

    Args:
        pairs: stored features, float32 [num_frames, num_bins], and their recording; None if the data does
            not name it.
        config: frontend of the data.
        fbank_dtype: type in which the features are stored.
    """
    options = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=options) as session:
        waveform = tf.compat.v1.placeholder(tf.float32, [None])
        fbank = tf.cast(frontend.extract(waveform, config), fbank_dtype)
        for record, recording in pairs:
            yield _compare(record, recording, config, lambda samples: session.run(fbank, {waveform: samples}))


def _compare(record, recording, config, extract: Callable[[np.ndarray], np.ndarray]) -> Result:
    if recording is None:
        return Result("not named by the data")
    if recording.is_augmented:
        return Result(f"is an augmented copy of {recording.path}, whose features differ")
    part = (recording.start_seconds, recording.seconds, recording.channel)
    try:
        extracted = extract(audio.read_audio(recording.path, config.sample_rate, np.inf, *part))
    except audio.AudioError as error:
        return Result(str(error))
    source = f"the recording {recording.path}{_size_change(recording)}"
    if record.shape != extracted.shape:
        shapes = f"{list(record.shape)}, expected {list(extracted.shape)}"
        return Result("has another length", f"shape of the stored features is {shapes} from {source}")
    step = np.spacing(np.maximum(np.abs(record.astype(extracted.dtype)), np.abs(extracted)))
    difference = np.abs(record - extracted.astype(np.float32))
    frame, place = np.unravel_index(np.argmax(difference - step.astype(np.float32)), record.shape)
    note = f"differs by at most {difference.max():.1e}"
    if difference[frame, place] - step[frame, place] <= TOLERANCE:
        return Result(note)
    values = f"{record[frame, place]:g}, expected {extracted[frame, place]:g}"
    return Result(note, f"bin {place} of frame {frame} is stored as {values} from {source}")


def _size_change(recording):
    now = files.size_and_time(recording.path)[0]
    return (
        ""
        if recording.num_bytes in (None, now)
        else f" (now {now} bytes, {recording.num_bytes} at the build)"
    )
