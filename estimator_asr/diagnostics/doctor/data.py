"""A data directory: whether it is whole, and which utterances leave CTC least room."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.diagnostics.doctor import findings
from estimator_asr.inputs import damage
from tfrecord_builder import dataset_info, frontend, schema, vocabulary

_SPLITS = ("train", "dev", "test")
_NUM_WORST = 20  # where some have too little room, else so many:
_NUM_CLOSEST = 3
# Reading goes on for so long at most: a look, no verification.
_SECONDS = 10.0
_UNKNOWN_SHARE = 0.02
_BATCH = 64


class Room(NamedTuple):
    """An utterance's frames after subsampling for each frame that its labels need at least."""

    ratio: float
    utterance_id: str
    num_frames: int
    num_needed: int


def check(data_dir: str) -> Iterator[findings.Finding]:
    """Yields the findings of one data directory.

    Raises:
        errors.UserError: it cannot be read any further.
    """
    info = dataset_info.DatasetInfo.load(data_dir)
    yield _check_tokens(data_dir, info)
    for name in [*_SPLITS, *sorted(set(info.splits) - set(_SPLITS))]:
        if name in info.splits:
            info.shard_paths(data_dir, name)
            yield from judge_split(name, info.splits[name])
    if "train" not in info.splits:
        yield findings.problem(f"{data_dir}: there is no train split; build it with one")
    elif "dev" not in info.splits:
        yield findings.warning(f"{data_dir}: there is no dev split, so nothing is evaluated in training")
    if "train" in info.splits and info.frontend is not None:
        with damage.explain([data_dir], "train"):
            yield from judge_room(data_dir, read_room(info, data_dir))


def judge_split(name: str, split: dataset_info.SplitInfo) -> Iterator[findings.Finding]:
    """Yields how large a split is, and what is suspicious about its labels."""
    hours = f", {split.hours:.2f} hours" if split.seconds else ""
    yield findings.ok(
        f"{name}: {split.num_utterances:,} utterances{hours}, {split.num_tokens:,} tokens, "
        f"{len(split.shards)} shards of the right size"
    )
    if split.unknown_tokens > _UNKNOWN_SHARE * split.num_tokens:
        yield findings.warning(
            f"{name}: {100 * split.unknown_tokens / split.num_tokens:.1f} % of the tokens are unknown, "
            "learned as <unk>; build with --extend_vocabulary or without --vocabulary_dir"
        )
    shared = split.shared_sentences.get("train", 0)
    if name != "train" and split.num_sentences and shared > split.num_sentences / 2:
        yield findings.warning(
            f"{name}: {shared:,} of {split.num_sentences:,} sentences stand in train too, so its error "
            "rates say little about new sentences; look at them in report.html"
        )


def judge_room(data_dir: str, rooms: list[Room]) -> Iterator[findings.Finding]:
    """Yields whether all labels fit into their frames, and the utterances with least room."""
    if not rooms:
        return
    too_long = sum(room.ratio < 1 for room in rooms)
    worst = sorted(rooms)[: _NUM_WORST if too_long else _NUM_CLOSEST]
    lines = "".join(
        f"\n             {room.num_frames:5} frames for {room.num_needed:4}  {room.utterance_id}"
        for room in worst
    )
    least = f"of {len(rooms):,} utterances read, the fullest (frames after subsampling, for labels):{lines}"
    if too_long:
        yield findings.problem(
            f"{data_dir}: {too_long:,} utterances have more labels than frames after subsampling, and teach "
            f"nothing; build the data again, which leaves them out; {least}"
        )
    else:
        yield findings.ok(least)


def read_room(info: dataset_info.DatasetInfo, data_dir: str, seconds: float = _SECONDS) -> list[Room]:
    """Reads the train split, for so long at most."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        records = tf.data.TFRecordDataset(info.shard_paths(data_dir, "train"))
        examples = schema.parse_examples(records, info.frontend.num_bins, info.fbank_dtype)
        names = ("utterance_id", "num_frames", "num_tokens", "token_ids")
        batches = examples.map(lambda example: {name: example[name] for name in names}).padded_batch(_BATCH)
        following = tf.compat.v1.data.make_one_shot_iterator(batches).get_next()
        rooms, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                rooms.extend(_rooms(session.run(following)))
            except tf.errors.OutOfRangeError:
                break
    return rooms


def _rooms(batch):
    for name, frames, count, ids in zip(
        *(batch[key] for key in ("utterance_id", "num_frames", "num_tokens", "token_ids"))
    ):
        repeats = int(np.sum(ids[1:count] == ids[: max(count - 1, 0)]))  # a blank stands between equal labels
        num_frames, needed = frontend.num_subsampled_frames(int(frames)), int(count) + repeats
        yield Room(num_frames / max(needed, 1), name.decode("utf-8"), num_frames, needed)


def _check_tokens(data_dir, info):
    path = os.path.join(data_dir, dataset_info.TOKENS_FILE)
    tokens = vocabulary.Vocabulary.load(path)
    if tokens.sha256 != info.tokens_sha256:
        return findings.problem(
            f"{path}: sha256 is {tokens.sha256[:12]}, expected {info.tokens_sha256[:12]} as in "
            f"{dataset_info.INFO_FILE}; restore the file that belongs to the records"
        )
    return findings.ok(
        f"{tokens.size:,} tokens of token type {info.token_type}, as {dataset_info.INFO_FILE} says"
    )
