"""Chooses sample utterances by hashing their ids, so that the same data always yields the same samples."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
from absl import logging

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import shard_cache, splits
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.data import dataset_info, recordings, schema


class SampleUtterance(NamedTuple):
    """A record and the path of its shard."""

    utterance_id: str
    shard: str
    values: Mapping[str, np.ndarray]  # see schema.parse_records; includes fbank if the model reads audio


def choose(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    split: str,
    spec: task_spec.TaskSpec,
    count: int,
    cache: shard_cache.ShardCache,
) -> list[SampleUtterance]:
    """Returns up to `count` utterances that the model can use, namely those with the lowest hashes.

    Reads only the split's first shard in each data directory; remote shards go through the cache. Raises
    errors.UserError if a shard is missing or does not have the expected size.
    """
    usable = (
        utterance
        for info, data_dir in zip(infos, data_dirs)
        if split in info.splits
        for utterance in _read(info, splits.list_shards(info, data_dir, split)[0], spec, cache)
        if _is_usable(utterance.values)
    )
    return heapq.nsmallest(
        count, usable, key=lambda utterance: hashlib.sha256(utterance.utterance_id.encode()).digest()
    )


def read_wav(utterance: SampleUtterance, sample_rate: int) -> Optional[bytes]:
    """Returns an utterance's recording as a WAV file, or None if no recording is known.

    If the recording cannot be read, logs the error and returns None.
    """
    try:
        all_recordings = recordings.find_all([utterance.shard], [utterance.utterance_id])
        recording = all_recordings.get(utterance.utterance_id)
        if recording is None:
            return None
        part = {key: getattr(recording, key) for key in ("start_seconds", "seconds", "channel")}
        samples = audio_files.read_audio(recording.path, sample_rate, **part)
    except (errors.UserError, OSError) as error:
        logging.info("TensorBoard will not have the recording of %s: %s", utterance.utterance_id, error)
        return None
    return audio_files.encode_wav(samples, sample_rate)


def _read(info, shard, spec, cache):
    num_bins = info.frontend.num_bins if spec.reads_audio else None
    records = cache.read_records(shard)
    records = schema.parse_records(records, num_bins, info.fbank_dtype, with_marks=spec.writes_marks)
    return (SampleUtterance(values["utterance_id"].decode(), shard.path, values) for values in records)


def _is_usable(values):
    if "fbank" in values:
        return values["num_frames"] > 0 and values["num_tokens"] > 0
    if "mark_ids" in values:
        return 0 < values["num_characters"] == values["num_marks"]
    return 0 < values["num_tokens"] == values["num_characters"]
