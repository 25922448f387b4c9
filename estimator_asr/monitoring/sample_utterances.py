"""The few utterances of dev that are looked at after each evaluation: always the same of the same data."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np
import soundfile
import tensorflow as tf
from absl import logging

from estimator_asr import task_spec
from tfrecord_builder import audio, dataset_info, errors, recordings, schema


class Utterance(NamedTuple):
    """A record.

    Attributes:
        shard: path of the file that it is in.
        token_ids, character_ids: int32 [num_tokens] and [num_characters].
        fbank: float32 [num_frames, num_bins]; None of text.
    """

    utterance_id: str
    shard: str
    token_ids: np.ndarray
    character_ids: np.ndarray
    fbank: Optional[np.ndarray]


def choose(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    split: str,
    spec: task_spec.TaskSpec,
    count: int,
) -> list[Utterance]:
    """Takes those whose ids have the lowest hashes among the first shard of each directory.

    Args:
        infos, data_dirs: the data; directories without the split are left out.
        split: name of the split.
        spec: of the model; only utterances that it can read are taken.
        count: how many at most.

    Raises:
        errors.UserError: a shard is missing or has another size.
    """
    candidates = []
    for info, data_dir in zip(infos, data_dirs):
        if split in info.splits:
            found = _read(info, info.shard_paths(data_dir, split)[0], spec)
            candidates.extend(utterance for utterance in found if _is_whole(utterance))
            candidates = sorted(candidates, key=lambda each: _hash(each.utterance_id))[:count]
    return candidates


def read_wav(utterance: Utterance, sample_rate: int) -> Optional[bytes]:
    """Returns the recording that a record was made of as a WAV file; None if it is gone, with a line why."""
    try:
        found = recordings.find(utterance.shard, utterance.utterance_id)
        if found is None:
            return None
        part = {key: getattr(found, key) for key in ("start_seconds", "seconds", "channel")}
        samples = audio.read_audio(found.path, sample_rate, **part)
    except (errors.UserError, OSError) as error:
        logging.info("no sound of %s in TensorBoard: %s", utterance.utterance_id, error)
        return None
    file = io.BytesIO()
    soundfile.write(file, samples, sample_rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def _read(info, shard, spec) -> Iterator[Utterance]:
    """Yields the records of a shard."""
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        num_bins = info.frontend.num_bins if spec.reads_audio else None
        examples = schema.parse_examples(tf.data.TFRecordDataset(shard), num_bins, info.fbank_dtype)
        example = tf.compat.v1.data.make_one_shot_iterator(examples).get_next()
        with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count={"GPU": 0})) as session:
            while True:
                try:
                    values = session.run(example)
                except tf.errors.OutOfRangeError:
                    return
                name = values["utterance_id"].decode()
                ids = values["token_ids"], values["character_ids"]
                yield Utterance(name, shard, *ids, values.get("fbank"))


def _is_whole(utterance):
    if utterance.fbank is not None:
        return len(utterance.fbank) > 0
    return 0 < len(utterance.token_ids) == len(utterance.character_ids)


def _hash(utterance_id):
    return hashlib.sha256(utterance_id.encode()).digest()
