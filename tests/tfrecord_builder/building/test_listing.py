import collections
import errno
import logging

import pytest

from tfrecord_builder import errors
from tfrecord_builder.augmentation import augmentation_config, copies, sources
from tfrecord_builder.building import catalog, listing
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

Variant = copies.Variant


@pytest.mark.parametrize(
    ("split", "changes", "variants"),
    [
        ("train", {}, [("u1", None), ("u1~speed0.8", Variant(0.8))]),
        ("dev", {}, [("u1", None)]),
        (
            "train",
            {"speed": 1.25, "volume_db": -3.0},
            [
                ("u1", Variant(1.25, volume_db=-3.0)),
                ("u1~speed0.8", Variant(1.0, volume_db=-3.0)),
            ],
        ),
        ("dev", {"speed": 1.25}, [("u1", Variant(1.25))]),
        ("train", {"speed": 1.25}, [("u1", Variant(1.25)), ("u1~speed0.8", None)]),
    ],
)
def test_the_corpus_own_speed_and_volume_come_on_top(split, changes, variants):
    utterance = manifest.Utterance("u1", "/c/u1.wav", "", "好", "", split, **changes)
    found = listing.list_copies(
        utterance, augmentation_config.AugmentationConfig(speed_perturb_factors=(1.0, 0.8)), sources.Sources()
    )
    assert list(found) == variants


def test_a_failing_disk_is_not_a_missing_recording(monkeypatch):
    def fail(path):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(files, "size_and_time", fail)
    with pytest.raises(errors.UserError, match=r"/c/a.wav: .*cannot be read \(Stale file handle\)"):
        listing.signatures(["/c/a.wav"])


@pytest.fixture
def listed(tmp_path):
    return catalog.Catalog(str(tmp_path / "catalog.sqlite"))


def _fill(listed, rows):
    """Adds (id, speaker, text) as recordings of train; without a speaker (None) as sentences of text."""
    for name, speaker, text in rows:
        audio = None if speaker is None else f"/{name}.wav"
        listed.add_utterance(manifest.Utterance(name, audio, speaker or "", text, "", "train"))


def _speakers(sizes):
    return [(f"{name}{i}", name, "你") for name, size in sizes.items() for i in range(size)]


def _dev(listed, fraction):
    listing.make_dev_split(listed, fraction)
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
    listed.add_utterance(manifest.Utterance("x", "/x.wav", "x", "你", "", "dev"))
    with caplog.at_level(logging.WARNING):
        assert _dev(listed, 0.5) == ["x"]
    assert "--dev_fraction=0.5: the corpus has a dev split; nothing is moved to it." in caplog.text
