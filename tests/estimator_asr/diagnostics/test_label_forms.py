from __future__ import annotations

import pytest
import tensorflow as tf
from small_records import CHARACTERS, TOKENS

from estimator_asr.diagnostics import label_forms

NI_HAO = {"utterance_id": "u1", "pronunciation": "ni3 hao3", "transcript": "你好"}  # ids 3 1, and 1 3
ONE_HOT = [0, 0, 0, 1, 0, 0, 1, 0, 0, 0]


def example(token_ids=(3, 1), character_ids=(1, 3), num_frames=40, **texts):
    """A serialised record; ids that are floats or bytes are stored as such."""
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in {**NI_HAO, **texts}.items()
    }
    for name, ids in (("token_ids", token_ids), ("character_ids", character_ids)):
        kinds = {float: "float_list", bytes: "bytes_list"}
        kind = kinds.get(type(ids[0]) if len(ids) else int, "int64_list")
        types = {
            "float_list": tf.train.FloatList,
            "bytes_list": tf.train.BytesList,
            "int64_list": tf.train.Int64List,
        }
        features[name] = tf.train.Feature(**{kind: types[kind](value=ids)})
    features["num_frames"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[num_frames]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_labels_of_their_text_are_right():
    assert label_forms.find_problem(example(), TOKENS) == ""
    assert label_forms.find_problem(example(), TOKENS, CHARACTERS) == ""
    unknown = example(token_ids=[0, 1], pronunciation="xx1 hao3")
    assert label_forms.find_problem(unknown, TOKENS) == ""


@pytest.mark.parametrize(
    ("token_ids", "said"),
    [
        ([3.0, 1.0], "token_ids are floats (3.0 1.0), expected integers"),
        ([b"ni3", b"hao3"], "token_ids are bytes (b'ni3' b'hao3'), expected integers"),
        (ONE_HOT, "token_ids look one-hot, 10 numbers of which 2 are 1, expected the ids 3 1"),
        ([*ONE_HOT[:5], 0, *ONE_HOT[5:], 0], "token_ids look one-hot, 12 numbers of which 2 are 1"),
        ([4, 2], "token_ids are shifted by +1: they are 4 2, expected 3 1"),
        ([2, 0], "token_ids are shifted by -1: they are 2 0, expected 3 1"),
        ([3, 5], "token_ids hold 5, which is the blank, expected 0 to 4"),
        ([3, 9], "token_ids hold 9, expected 0 to 4"),
        ([3, -1], "token_ids hold -1, expected 0 to 4"),
        ([], "it has no token_ids, expected 3 1"),
        ([3, 2], "token_ids[1] is 2 (ma5), expected 1 (hao3) as in its text"),
        ([3], "token_ids[1] is nothing, expected 1 (hao3) as in its text"),
        ([3, 1, 1], "token_ids[2] is 1 (hao3), expected nothing as in its text"),
        ([1] * 9, "token_ids[0] is 1 (hao3), expected 3 (ni3) as in its text"),
    ],
)
def test_wrong_tokens_are_told_apart_by_name(token_ids, said):
    problem = label_forms.find_problem(example(token_ids), TOKENS)
    assert problem.startswith("utterance u1: ") and said in problem
    assert said in label_forms.find_problem(example(token_ids), TOKENS, CHARACTERS)


@pytest.mark.parametrize(
    ("character_ids", "said"),
    [
        ([1.0, 3.0], "character_ids are floats (1.0 3.0), expected integers"),
        ([0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], "character_ids look one-hot, 12 numbers of which 2 are 1"),
        ([2, 4], "character_ids are shifted by +1: they are 2 4, expected 1 3"),
        ([1, 6], "character_ids hold 6, expected 0 to 5"),
        ([1, 4], "character_ids[1] is 4 (是), expected 3 (好) as in its text"),
    ],
)
def test_wrong_characters_are_told_apart_where_they_are_learnt(character_ids, said):
    wrong = example(character_ids=character_ids)
    assert said in label_forms.find_problem(wrong, TOKENS, CHARACTERS)
    assert label_forms.find_problem(wrong, TOKENS) == ""


def test_an_utterance_may_have_no_characters():
    assert label_forms.find_problem(example(character_ids=[]), TOKENS, CHARACTERS) == ""


def test_without_a_text_the_form_alone_is_looked_at():
    for right in ([3, 1], [1]):
        assert label_forms.find_problem(example(right, pronunciation=""), TOKENS) == ""
    for wrong, said in ((ONE_HOT, "expected ids"), ([5], "the blank"), ([], "expected some")):
        assert said in label_forms.find_problem(example(wrong, pronunciation=""), TOKENS)


def test_more_labels_than_frames_allow_are_refused_where_frames_are_heard():
    syllables = {"token_ids": [1, 1, 3], "pronunciation": "hao3 hao3 ni3"}
    assert label_forms.find_problem(example(**syllables, num_frames=13), TOKENS) == ""
    short = example(**syllables, num_frames=12)
    said = "its 3 labels need 4 frames, expected at most the 3 that the model has of it"
    assert label_forms.find_problem(short, TOKENS) == f"utterance u1: {said}"
    assert label_forms.find_problem(short, TOKENS, CHARACTERS) == ""


def test_what_is_no_record_is_named():
    assert "is no tf.train.Example" in label_forms.find_problem(b"\xff\xff", TOKENS)
