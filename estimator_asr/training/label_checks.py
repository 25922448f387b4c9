"""Labels in the wrong form are refused by name: a sample before the first step, all when a step fails.

The text of a record (pronunciation, transcript) says what its labels should be, so that ids that are one-hot,
floats or shifted by one are told apart from others.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Optional

import tensorflow as tf
from google.protobuf import message

from estimator_asr import model_directory
from estimator_asr.inputs import damage
from estimator_asr.models import losses
from tfrecord_builder import dataset_info, errors, frontend, vocabulary

SPLITS = ("train", "dev")
_SAMPLE = 100  # records of a split, from so many shards:
_SHARDS = 10
_BLOCK = 32
_SHOWN = 6
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


def find_problem(
    serialized: bytes, tokens: vocabulary.Vocabulary, characters: Optional[vocabulary.Vocabulary] = None
) -> str:
    """Returns what is wrong with the labels of a record, as `utterance ID: WHAT is GOT, expected WANT`.

    Args:
        serialized: a tf.train.Example.
        tokens: of the model.
        characters: of a language model, which learns them; None for an acoustic one.

    Returns:
        Empty if nothing is.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except message.DecodeError:
        return "a record is no tf.train.Example, expected one"
    text = {name: _text(features, name) for name in ("utterance_id", "pronunciation", "transcript")}
    pronunciation = text["pronunciation"].split()
    problem = _ids_problem(features, "token_ids", pronunciation, tokens)
    if characters is None:
        problem = problem or _length_problem(features)
    elif not _is_empty(features["character_ids"]):  # as where hanzi and pinyin do not pair
        written = text["transcript"].replace(" ", "")
        problem = problem or _ids_problem(features, "character_ids", written, characters)
    return f"utterance {text['utterance_id']}: {problem}" if problem else ""


def _refuse(paths, model, count):
    for path, serialized in _read(paths, count):
        problem = find_problem(serialized, model.tokens, model.characters)
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


def _ids_problem(features, name, written, known):
    kind = features[name].WhichOneof("kind") or "int64_list"
    ids = list(getattr(features[name], kind).value)
    expected = known.encode(written)
    if kind != "int64_list":
        what = {"float_list": "floats", "bytes_list": "bytes"}[kind]
        return f"{name} are {what} ({_list(ids)}), expected integers"
    if not ids:
        return f"it has no {name}, expected {_list(expected) or 'some'}"
    if ids == expected:
        return ""
    return _describe_wrong(name, ids, expected, known)


def _describe_wrong(name, ids, expected, known):
    if _is_one_hot(ids, known):
        wanted = f"the ids {_list(expected)}" if expected else "ids"
        return f"{name} look one-hot, {len(ids)} numbers of which {sum(ids)} are 1, expected {wanted}"
    for shift in (1, -1):
        if expected and ids == [each + shift for each in expected]:
            return f"{name} are shifted by {shift:+d}: they are {_list(ids)}, expected {_list(expected)}"
    for each in ids:
        if each == known.blank_id and name == "token_ids":
            return f"{name} hold {each}, which is the blank, expected 0 to {known.size - 1}"
        if not 0 <= each < known.size:
            return f"{name} hold {each}, expected 0 to {known.size - 1}"
    return _first_difference(name, ids, expected, known) if expected else ""


def _is_one_hot(ids, known):
    """Whole rows of as many numbers as there are labels or classes, with a single 1 in each."""
    if set(ids) - {0, 1} or len(ids) < 2:
        return False
    for width in (known.size, known.num_classes):
        rows = [ids[begin : begin + width] for begin in range(0, len(ids), width)]
        if len(ids) % width == 0 and all(sum(row) == 1 for row in rows):
            return True
    return False


def _first_difference(name, ids, expected, known):
    pairs = enumerate(itertools.zip_longest(ids, expected))
    place, (got, want) = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
    got, want = ("nothing" if each is None else f"{each} ({known.decode([each])[0]})" for each in (got, want))
    return f"{name}[{place}] is {got}, expected {want} as in its text"


def _length_problem(features):
    ids = list(features["token_ids"].int64_list.value)
    needed = len(ids) + sum(first == second for first, second in zip(ids, ids[1:]))
    left = frontend.num_subsampled_frames(sum(features["num_frames"].int64_list.value))
    if needed <= left:
        return ""
    return f"its {len(ids)} labels need {needed} frames, expected at most the {left} that the model has of it"


def _is_empty(feature):
    kind = feature.WhichOneof("kind")
    return not kind or not getattr(feature, kind).value


def _text(features, name):
    return b"".join(features[name].bytes_list.value).decode("utf-8", "replace")


def _list(ids):
    shown = " ".join(f"{each}" for each in ids[:_SHOWN])
    return f"{shown} ..." if len(ids) > _SHOWN else shown
