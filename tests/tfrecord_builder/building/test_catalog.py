import dataclasses
import itertools
import re

import pytest

from tfrecord_builder import errors
from tfrecord_builder.building import catalog
from tfrecord_builder.data import manifest


@pytest.fixture
def listed(tmp_path):
    with catalog.open_new(str(tmp_path)) as opened:
        yield opened


def _utterance(name, split="train", text="你"):
    return manifest.Utterance(name, f"/{name}.wav", "s", text, "", split)


def _add(listed, name, split="train", sentence=b"ni"):
    listed.add_items([(name, split, sentence)])


def test_utterances_are_returned_in_the_order_of_the_listing(listed):
    added = [_utterance("b"), _utterance("a", "dev"), _utterance("c")]
    assert [listed.add_list(added[:2]), listed.add_list(added[2:]), listed.add_list([])] == [2, 1, 0]
    assert list(listed.utterances()) == added
    assert list(listed.utterances("train")) == [added[0], added[2]]
    assert (listed.count_utterances(), listed.count_utterances("dev")) == (3, 1)


def test_a_list_can_be_read_without_the_catalog(listed, tmp_path):
    odd = dataclasses.replace(_utterance("b\x85", "dev", "好\n"), audio="/\udcff.wav")
    listed.add_list([_utterance("a"), odd])
    listed.add_list([_utterance("c")])
    listed.group("train", lambda utterance: utterance.utterance_id)
    digests = [digest for digest, _ in listed.group_sizes()]  # first the hash of c, 2e7d..., then that of a
    listed.move_groups(digests[1:], "test")
    first, second = listed.lists()
    assert (first.file, first.splits) == ("00000.listed", "21")  # see manifest.SPLITS
    assert (second.file, second.splits) == ("00001.listed", "0")
    assert list(first.read(str(tmp_path))) == [_utterance("a", "test"), odd]


def test_a_list_that_is_damaged_is_refused(listed, tmp_path):
    listed.add_list([_utterance("a"), _utterance("b")])
    (only,) = listed.lists()
    path = tmp_path / only.file
    path.write_bytes(path.read_bytes().replace(b"/b.wav", b"/c.wav"))
    message = "00000.listed has changed .*: its sha256 is .*, expected .*. Check the disk or"
    with pytest.raises(errors.UserError, match=message):
        list(only.read(str(tmp_path)))


@pytest.mark.parametrize("sizes", [(2,), (1, 1)], ids=["in one list", "in two lists"])
def test_a_duplicate_id_is_refused(listed, sizes):
    remaining = iter([_utterance("u1"), _utterance("u1", "dev")])
    with pytest.raises(errors.UserError, match="u1 is a duplicate utterance id; ids must be unique"):
        for size in sizes:
            listed.add_list(itertools.islice(remaining, size))


@pytest.mark.parametrize("name", ["", "a\tb", "a\nb", "a\r"])
def test_an_id_with_separators_is_refused(listed, name):
    message = f"{name!r} is not a valid utterance id. Ids must not be empty or contain tabs or line breaks"
    with pytest.raises(errors.UserError, match=re.escape(message)):
        listed.add_list([_utterance(name)])


def test_rejected_utterances_and_reasons(listed):
    for name in ("a", "b"):
        _add(listed, name)
    listed.reject([("x", "dev", "no transcript", "/x.wav")])
    listed.reject([("a", "train", "silent audio", "/\udcff.wav")])
    listed.reject([("b", "train", "silent audio", None)])
    assert list(listed.rejected()) == [
        ("x", "dev", "no transcript", "/x.wav"),
        ("a", "train", "silent audio", r"/\udcff.wav"),
        ("b", "train", "silent audio", ""),
    ]
    assert listed.reasons() == [("silent audio", 2), ("no transcript", 1)]
    for name, syllable in (("y", "hao9"), ("z", "nh1"), ("c", "hao9")):
        listed.reject([(name, "dev", f"pinyin has an unknown syllable: {syllable}", None)])
    assert listed.reasons()[0] == ("pinyin has an unknown syllable", 3)
    assert listed.count_candidates() == 6  # two items, and four utterances that never became items


def test_shared_sentences_of_splits_are_counted(listed):
    rows = [("train", b"1"), ("train", b"1"), ("train", b"2"), ("dev", b"1"), ("dev", b"3"), ("test", b"4")]
    for i, (split, sentence) in enumerate(rows):
        _add(listed, f"u{i}", split, sentence)
    _add(listed, "gone", "test", b"1")
    listed.reject([("gone", "test", "silent audio", None)])
    assert listed.sentences() == {"train": (2, {"dev": 1}), "dev": (2, {"train": 1}), "test": (1, {})}
