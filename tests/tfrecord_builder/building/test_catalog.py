import re

import pytest

from tfrecord_builder import errors, manifest
from tfrecord_builder.augmentation import copies
from tfrecord_builder.building import catalog
from tfrecord_builder.labels import labelling
from tfrecord_builder.records import items

SLOW = copies.Variant(speed=0.9)


@pytest.fixture
def listed(tmp_path):
    with catalog.open_new(str(tmp_path / "catalog.sqlite")) as opened:
        yield opened


def _utterance(name, split="train", text="你"):
    return manifest.Utterance(name, f"/{name}.wav", "s", text, "", split)


def _add(listed, name, split="train", transcript="你", tokens=("ni3",), copy=None):
    listed.add_utterance(_utterance(name, split))
    labels = labelling.Labels(transcript, tokens, ())
    variants = [(name, None), (copy, SLOW)] if copy else [(name, None)]
    listed.add_labels(_utterance(name, split), labels, (1, 2), variants)


def test_utterances_come_back_as_they_were_listed(listed):
    added = [_utterance("b"), _utterance("a", "dev"), _utterance("c")]
    for utterance in added:
        listed.add_utterance(utterance)
    assert list(listed.utterances()) == added
    assert list(listed.utterances("train")) == [added[0], added[2]]
    assert (listed.count_utterances(), listed.count_utterances("dev")) == (3, 1)


def test_a_duplicate_id(listed):
    listed.add_utterance(_utterance("u1"))
    with pytest.raises(errors.UserError, match="the utterance id u1 is a duplicate; give every utterance"):
        listed.add_utterance(_utterance("u1", "dev"))
    _add(listed, "u2~speed0.9")
    message = "u2~speed0.9 is the id of an utterance and of an augmented copy of another; rename"
    with pytest.raises(errors.UserError, match=message):
        _add(listed, "u2", copy="u2~speed0.9")


@pytest.mark.parametrize("name", ["", "a\tb", "a\nb", "a\r"])
def test_an_id_that_no_table_can_hold(listed, name):
    message = re.escape(f"an utterance id is {name!r}, expected one without tabs and line breaks")
    with pytest.raises(errors.UserError, match=message):
        listed.add_utterance(_utterance(name))


def test_items_come_in_the_order_of_the_sha256_of_their_ids(listed):
    for name in "abc":
        _add(listed, name)
    _add(listed, "d", "dev", copy="d~slow")
    ids = [(shard, item.utterance.utterance_id) for shard, item in listed.items("train", 2, range(2))]
    assert ids == [(0, "c"), (1, "b"), (0, "a")]  # 2e7d.. 3e23.. ca97..
    assert [item.utterance.utterance_id for _, item in listed.items("train", 2, [1])] == ["b"]
    labels = labelling.Labels("你", ("ni3",), ())
    found = {item.utterance.utterance_id: item for _, item in listed.items("dev", 1, [0])}
    assert found["d"] == items.Item(_utterance("d", "dev"), labels, (1, 2))
    assert found["d~slow"].variant == SLOW and found["d~slow"].utterance.audio == "/d.wav"
    assert listed.split_sizes() == {"dev": 2, "train": 3}


def test_what_is_rejected(listed):
    for name in ("a", "b"):
        _add(listed, name)
    listed.reject("x", "dev", "no transcript", "/x.wav")
    listed.reject("a", "train", "silent audio", "/\udcff.wav")
    listed.reject("b", "train", "silent audio", None)
    assert list(listed.rejected()) == [
        ("x", "dev", "no transcript", "/x.wav"),
        ("a", "train", "silent audio", r"/\udcff.wav"),
        ("b", "train", "silent audio", ""),
    ]
    assert listed.reasons() == [("silent audio", 2), ("no transcript", 1)]
    for name, syllable in (("y", "hao9"), ("z", "nh1"), ("c", "hao9")):
        listed.reject(name, "dev", f"pinyin has an unknown syllable: {syllable}", None)
    assert listed.reasons()[0] == ("pinyin has an unknown syllable", 3)
    assert listed.count_candidates() == 6  # two items, and four that never were


def test_sentences_that_splits_share(listed):
    rows = [("train", "你"), ("train", "你"), ("train", "好"), ("dev", "你"), ("dev", "他"), ("test", "她")]
    for i, (split, transcript) in enumerate(rows):
        _add(listed, f"u{i}", split, transcript)
    _add(listed, "gone", "test", "你")
    listed.reject("gone", "test", "silent audio", None)
    assert listed.sentences() == {"train": (2, {"dev": 1}), "dev": (2, {"train": 1}), "test": (1, {})}


def test_a_pronunciation_is_a_sentence_where_there_is_no_transcript(listed):
    _add(listed, "a", "train", "", ("ni3", "hao3"))
    _add(listed, "b", "dev", "", ("ni3", "hao3"))
    assert listed.sentences()["dev"] == (1, {"train": 1})
