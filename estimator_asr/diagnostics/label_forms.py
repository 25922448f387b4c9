"""What is wrong with the labels of a record, told by its text.

Its pronunciation and transcript say what the labels should be, so that ids that are one-hot, floats or
shifted by one are told apart from others.
"""

from __future__ import annotations

import itertools
from typing import Optional

import tensorflow as tf
from google.protobuf import message

from tfrecord_builder import frontend, vocabulary

_SHOWN = 6


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
