"""Reads sample utterances, with their recordings, for comparing an export with its models."""

from __future__ import annotations

import itertools
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import input_fn, splits
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, frontend
from tfrecord_builder.data import recordings


class ParityUtterance(NamedTuple):
    """An utterance to recognise; `waveform` is None if it cannot be read or the record is augmented."""

    utterance_id: str
    fbank: np.ndarray  # float32 [num_frames, num_bins], as stored in the record
    waveform: Optional[np.ndarray]  # float32 [num_samples], at the model's sample rate


def read(
    source: splits.Split,
    config: config_lib.InputConfig,
    num_utterances: int,
    features: frontend.FrontendConfig,
    max_seconds: int,
) -> list[ParityUtterance]:
    """Reads utterances spread over the whole split; skips those that are longer than max_seconds.

    `num_utterances` is a maximum: the sample may contain only about half as many.

    Raises errors.UserError if no utterance is selected, or a shard is damaged.
    """
    max_frames = frontend.num_frames(max_seconds * features.sample_rate, features)
    rows = (
        (name.decode("utf-8"), fbank[:length])
        for batch in input_fn.read_sample(source, config, num_utterances)
        for name, fbank, length in zip(batch["utterance_id"], batch["fbank"], batch["num_frames"])
        if length <= max_frames
    )
    sampled = list(itertools.islice(rows, num_utterances))
    if not sampled:
        raise errors.UserError(
            f"export: --parity_utterances={num_utterances} selects no utterance of at most {max_seconds} s "
            f"from the split, which has {source.num_utterances} utterances; pass a larger number"
        )
    by_id = recordings.find_all([shard.path for shard in source.shards], [name for name, _ in sampled])
    return [
        ParityUtterance(name, fbank, _read_audio(by_id.get(name), features.sample_rate, max_seconds))
        for name, fbank in sampled
    ]


def _read_audio(
    recording: Optional[recordings.Recording], sample_rate: int, max_seconds: float
) -> Optional[np.ndarray]:
    """Returns float32 [num_samples], or None if no audio can be read or the record is an augmented copy."""
    if recording is None or recording.is_augmented:
        return None
    segment = (recording.start_seconds, recording.seconds, recording.channel)
    try:
        return audio_files.read_audio(recording.path, sample_rate, max_seconds, *segment)
    except (audio_files.AudioError, OSError):
        return None
