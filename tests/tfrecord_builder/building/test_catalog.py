import collections
import logging
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
        listed.add_row(catalog.to_row(utterance))
    assert list(listed.utterances()) == added
    assert list(listed.utterances("train")) == [added[0], added[2]]
    assert (listed.count_utterances(), listed.count_utterances("dev")) == (3, 1)


def test_a_duplicate_id(listed):
    listed.add_row(catalog.to_row(_utterance("u1")))
    with pytest.raises(errors.UserError, match="the utterance id u1 is a duplicate; give every utterance"):
        listed.add_row(catalog.to_row(_utterance("u1", "dev")))


@pytest.mark.parametrize("name", ["", "a\tb", "a\nb", "a\r"])
def test_an_id_that_no_table_can_hold(listed, name):
    message = re.escape(f"an utterance id is {name!r}, expected one without tabs and line breaks")
    with pytest.raises(errors.UserError, match=message):
        listed.add_row(catalog.to_row(_utterance(name)))


def test_what_is_rejected(listed):
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
    assert listed.count_candidates() == 6  # two items, and four that never were


def test_sentences_that_splits_share(listed):
    rows = [("train", b"1"), ("train", b"1"), ("train", b"2"), ("dev", b"1"), ("dev", b"3"), ("test", b"4")]
    for i, (split, sentence) in enumerate(rows):
        _add(listed, f"u{i}", split, sentence)
    _add(listed, "gone", "test", b"1")
    listed.reject([("gone", "test", "silent audio", None)])
    assert listed.sentences() == {"train": (2, {"dev": 1}), "dev": (2, {"train": 1}), "test": (1, {})}


def _fill(listed, rows):
    """Adds (id, speaker, text) as recordings of train; without a speaker (None) as sentences of text."""
    for name, speaker, text in rows:
        audio = None if speaker is None else f"/{name}.wav"
        listed.add_row(catalog.to_row(manifest.Utterance(name, audio, speaker or "", text, "", "train")))


def _speakers(sizes):
    return [(f"{name}{i}", name, "你") for name, size in sizes.items() for i in range(size)]


def _dev(listed, fraction):
    catalog.make_dev_split(listed, fraction)
    return [utterance.utterance_id for utterance in listed.utterances("dev")]


def test_whole_speakers_in_the_order_of_their_hashes(listed, caplog):
    # sha256("speaker d") begins with 13; then come a 2b, e 47, c 8d and b ac.
    _fill(listed, _speakers(dict.fromkeys("abcde", 4)))
    assert _dev(listed, 0.4) == ["a0", "a1", "a2", "a3", "d0", "d1", "d2", "d3"]
    assert {utterance.speaker for utterance in listed.utterances("train")} == set("bce")
    assert {utterance.split for utterance in listed.utterances("dev")} == {"dev"}
    assert caplog.messages == ["--dev_fraction=0.4: 8 of 20 utterances of train (40.0 %) are now dev."]


def test_the_order_of_the_corpus_does_not_matter(listed):
    _fill(listed, reversed(_speakers(dict.fromkeys("abcde", 4))))
    assert sorted(_dev(listed, 0.4)) == ["a0", "a1", "a2", "a3", "d0", "d1", "d2", "d3"]


def test_a_speaker_who_is_too_large_is_passed_over(listed):
    _fill(listed, _speakers({"a": 2, "b": 3, "c": 5, "d": 10}))
    assert _dev(listed, 0.4) == ["a0", "a1", "c0", "c1", "c2", "c3", "c4"]  # at most 8: not d, nor b


@pytest.mark.parametrize(("sizes", "smallest"), [({"a": 3, "b": 2, "c": 4}, "b"), ({"a": 6, "b": 3}, "b")])
def test_if_no_speaker_fits_the_smallest_is_taken(listed, sizes, smallest):
    _fill(listed, _speakers(sizes))
    assert {name[0] for name in _dev(listed, 0.05)} == {smallest}


def test_one_speaker_is_divided_and_that_is_said(listed, caplog):
    _fill(listed, _speakers({"a": 40}))
    assert len(_dev(listed, 0.1)) == 4
    assert "4 of 40 utterances of train (10.0 %) are now dev; all are of one speaker, who" in caplog.text


def test_a_single_utterance_stays(listed):
    _fill(listed, _speakers({"a": 1}))
    assert _dev(listed, 0.5) == []


@pytest.mark.parametrize("speaker", ["", "corpus/"])  # the latter of one of several directories
def test_utterances_of_unknown_speakers_are_chosen_one_by_one(listed, caplog, speaker):
    _fill(listed, [(f"u{i}", speaker, "你") for i in range(100)])
    assert len(_dev(listed, 0.07)) == 7
    assert "one speaker" not in caplog.text


def test_equal_sentences_of_text_stay_together(listed):
    _fill(listed, [(f"u{i}", None, "你我他她它"[i % 5] + "。" * (i % 2)) for i in range(50)])
    dev = _dev(listed, 0.4)
    assert len(dev) == 20
    counts = collections.Counter(int(name[1:]) % 5 for name in dev)
    assert list(counts.values()) == [10, 10]


def test_a_dev_split_of_the_corpus_stays_as_it_is(listed, caplog):
    _fill(listed, _speakers({"a": 4, "b": 4}))
    listed.add_row(catalog.to_row(manifest.Utterance("x", "/x.wav", "x", "你", "", "dev")))
    with caplog.at_level(logging.WARNING):
        assert _dev(listed, 0.5) == ["x"]
    assert "--dev_fraction=0.5: the corpus has a dev split; nothing is moved to it." in caplog.text
