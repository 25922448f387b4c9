"""Labels in the wrong form are refused by name: a sample before the first step, all when a step fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.diagnostics import label_forms
from estimator_asr.inputs import damage
from estimator_asr.models import losses
from tfrecord_builder import dataset_info, errors

SPLITS = ("train", "dev")
_SAMPLE = 100  # records of a split, from so many shards:
_SHARDS = 10
_BLOCK = 32
_AGAIN = "build the data again"


def check(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    model: model_directory.ModelDirectory,
    splits: Sequence[str] = SPLITS,
) -> None:
    """Checks a sample of the labels that a model will learn.

    Args:
        infos, data_dirs: the data.
        model: whose vocabularies they are in.
        splits: those that are read, where they are there.

    Raises:
        errors.UserError: naming the shard, the utterance, what its labels are and what they should be.
    """
    with damage.explain(data_dirs, " or ".join(splits)):
        for paths in _shards_by_directory(infos, data_dirs, splits):
            chosen = paths[:: -(-len(paths) // _SHARDS)]
            _refuse(chosen, model, -(-_SAMPLE // len(chosen)))


@contextlib.contextmanager
def explain(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    model: model_directory.ModelDirectory,
    splits: Sequence[str] = SPLITS,
) -> Iterator[None]:
    """Turns losses.WRONG_LABEL inside the block into the sentence that names the utterance.

    Raises:
        errors.UserError: a label of a batch is no class, or the blank.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        if losses.WRONG_LABEL not in error.message:
            raise
        for paths in _shards_by_directory(infos, data_dirs, splits):
            _refuse(paths, model, None)
        line = next(line for line in error.message.splitlines() if losses.WRONG_LABEL in line)
        raise errors.UserError(
            f"{','.join(data_dirs)}: {line.strip()}, though each record is right by itself; {_AGAIN}."
        ) from error


def _refuse(paths, model, count):
    for path, serialized in _read(paths, count):
        problem = label_forms.find_problem(serialized, model.tokens, model.characters)
        if problem:
            raise errors.UserError(f"{path}: {problem}; {_AGAIN}.")


def _shards_by_directory(infos, data_dirs, splits) -> list[list[str]]:
    return [
        info.shard_paths(data_dir, split)
        for split in splits
        for info, data_dir in zip(infos, data_dirs)
        if split in info.splits and info.splits[split].shards
    ]


def _read(paths, count) -> Iterator[tuple[str, bytes]]:
    """Yields path and record, the first `count` of each shard."""

    def read(path):
        records = tf.data.TFRecordDataset(path).take(-1 if count is None else count)
        return records.map(lambda record: (path, record))

    options = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=options) as session:
        records = tf.data.Dataset.from_tensor_slices(paths).flat_map(read).batch(_BLOCK)
        block = tf.compat.v1.data.make_one_shot_iterator(records).get_next()
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                yield from ((path.decode(), record) for path, record in zip(*session.run(block)))
