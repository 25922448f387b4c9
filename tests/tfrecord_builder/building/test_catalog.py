import re

import pytest

from tfrecord_builder import errors
from tfrecord_builder.building import catalog
from tfrecord_builder.data import manifest


@pytest.fixture
def listed(tmp_path):
    with catalog.open_new(str(tmp_path / "catalog.sqlite")) as opened:
        yield opened


def _utterance(name, split="train", text="你"):
    return manifest.Utterance(name, f"/{name}.wav", "s", text, "", split)


def _add(listed, name, split="train", sentence=b"ni"):
    listed.add_items([(name, split, sentence)])


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


@pytest.mark.parametrize("name", ["", "a\tb", "a\nb", "a\r"])
def test_an_id_that_no_table_can_hold(listed, name):
    message = re.escape(f"an utterance id is {name!r}, expected one without tabs and line breaks")
    with pytest.raises(errors.UserError, match=message):
        listed.add_utterance(_utterance(name))


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
    rows = [("train", b"1"), ("train", b"1"), ("train", b"2"), ("dev", b"1"), ("dev", b"3"), ("test", b"4")]
    for i, (split, sentence) in enumerate(rows):
        _add(listed, f"u{i}", split, sentence)
    _add(listed, "gone", "test", b"1")
    listed.reject("gone", "test", "silent audio", None)
    assert listed.sentences() == {"train": (2, {"dev": 1}), "dev": (2, {"train": 1}), "test": (1, {})}
