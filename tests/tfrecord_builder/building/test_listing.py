"""Lists corpora in the catalog; data, errors and warnings are the same on every engine."""

import collections
import logging
import os

import built_data
import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.building import catalog, chunks, listing
from tfrecord_builder.building.engines import dispatch, local_engine
from tfrecord_builder.data import manifest


@pytest.fixture(autouse=True)
def _engine(monkeypatch):
    """Replaces the Ray engine by the local engine with one worker."""
    monkeypatch.setitem(dispatch.ENGINES, "ray", lambda runner, _: local_engine.open_engine(runner, 1))


@pytest.fixture
def listed(tmp_path):
    with catalog.open_new(str(tmp_path)) as opened:
        yield opened


def _build(output_dir, corpus_dirs, **flags):
    """Builds a data directory; returns {name: content} of its files."""
    built_data.build(corpus_dirs, output_dir, num_shards=2, **flags)
    return built_data.contents(output_dir)


def _make_two_corpora(directory):
    return [small_corpora.make_manifest_corpus(directory / name, 4, 1, prefix=name) for name in ("b", "a")]


def test_every_published_file_has_the_bytes_of_the_local_build(tmp_path):
    corpus = small_corpora.make_manifest_corpus(tmp_path / "in", num_train=12, num_dev=3)
    small_corpora.write_audio(tmp_path / "in" / "audio" / "u03.wav", 0 * small_corpora.tone(0.5))
    os.remove(tmp_path / "in" / "audio" / "u05.wav")
    expected = _build(tmp_path / "local", [corpus], max_rejected=0.5)
    assert len(expected) == 14  # 2 splits x 2 shards x 2 files, and six other files
    assert _build(tmp_path / "engine", [corpus], runner="ray", max_rejected=0.5) == expected


def test_workers_do_not_read_the_corpus(tmp_path, monkeypatch):
    def remove_and_label(*arguments):
        for corpus in corpora:
            os.remove(os.path.join(corpus, "manifest.tsv"))
        return label_corpus(*arguments)

    label_corpus = chunks.label_corpus
    monkeypatch.setattr(listing, "_LIST_SIZE", 4)  # three lists; one has utterances of both corpora
    corpora = _make_two_corpora(tmp_path / "in")
    expected = _build(tmp_path / "local", corpora, dev_fraction=0.2)
    monkeypatch.setattr(chunks, "label_corpus", remove_and_label)
    assert _build(tmp_path / "engine", corpora, runner="ray", dev_fraction=0.2) == expected


def _break(corpora, problem):
    if problem == "a missing column":
        small_corpora.write_text(os.path.join(corpora[1], "manifest.tsv"), "id\taudio\n")
    elif problem == "a missing directory":
        corpora[1] += "-missing"
    elif problem == "a duplicate directory":
        corpora[1] = corpora[0]
    else:  # in two directories, followed by another error
        names = {"a duplicate id": ("x", "x"), "an empty id": ("x", "")}[problem]
        for corpus, name in zip(corpora, names):
            with open(os.path.join(corpus, "manifest.tsv"), "a", encoding="utf-8") as file:
                file.write(f"{name}\taudio/a00.wav\ts\t你好\t\ttrain\n")
        corpora.append(corpora[0] + "-missing")


@pytest.mark.parametrize(
    "problem",
    ["a missing column", "a missing directory", "a duplicate directory", "a duplicate id", "an empty id"],
)
def test_errors_of_a_corpus_are_the_same_as_in_a_local_build(tmp_path, problem):
    corpora = _make_two_corpora(tmp_path / "in")
    _break(corpora, problem)
    said = []
    for options in (dict(num_workers=1), dict(runner="ray")):
        with pytest.raises(errors.UserError) as caught:
            _build(tmp_path / "out", corpora, **options)
        said.append(str(caught.value))
    assert said[0] == said[1] and "ray" not in said[0]
    assert not (tmp_path / "out" / "dataset_info.json").exists()


def test_a_warning_of_a_reader_is_logged_once(tmp_path, caplog):
    corpus_trees.make_lhotse_corpus(tmp_path / "in")
    for name in ("musan_cuts.jsonl.gz", "noise_cuts.jsonl.gz"):
        corpus_trees.write_gzip(tmp_path / "in" / name, "")
    _build(tmp_path / "out", [tmp_path / "in"], corpus="lhotse", runner="ray", max_rejected=1.0)
    assert caplog.text.count("ignored unknown files: musan_cuts.jsonl.gz, noise_cuts.jsonl.gz") == 1


def _make(name, speaker, text):
    audio = None if speaker is None else f"/{name}.wav"
    return manifest.Utterance(name, audio, speaker or "", text, "", "train")


def _fill(listed, rows):
    """Adds (id, speaker, text) rows to train: recordings or, if the speaker is None, sentences of a text."""
    listed.add_list(_make(*row) for row in rows)


def _speakers(sizes):
    return [(f"{name}{i}", name, "你") for name, size in sizes.items() for i in range(size)]


def _dev(listed, fraction):
    listing.make_dev_split(listed, fraction)
    return [utterance.utterance_id for utterance in listed.utterances("dev")]


def test_dev_gets_whole_speakers_in_the_order_of_their_hashes(listed, caplog):
    # The hash of speaker d begins with 13, the hash of a with 2b, e with 47, c with 8d, and b with ac.
    _fill(listed, _speakers(dict.fromkeys("abcde", 4)))
    assert _dev(listed, 0.4) == ["a0", "a1", "a2", "a3", "d0", "d1", "d2", "d3"]
    assert {utterance.speaker for utterance in listed.utterances("train")} == set("bce")
    assert {utterance.split for utterance in listed.utterances("dev")} == {"dev"}
    assert caplog.messages == ["--dev_fraction=0.4: moved 8 of 20 utterances (40.0 %) from train to dev."]


def test_the_order_of_the_corpus_does_not_matter(listed):
    _fill(listed, reversed(_speakers(dict.fromkeys("abcde", 4))))
    assert sorted(_dev(listed, 0.4)) == ["a0", "a1", "a2", "a3", "d0", "d1", "d2", "d3"]


def test_a_speaker_with_too_many_utterances_is_skipped(listed):
    _fill(listed, _speakers({"a": 2, "b": 3, "c": 5, "d": 10}))
    # At most 8 utterances are moved, so d and b do not fit.
    assert _dev(listed, 0.4) == ["a0", "a1", "c0", "c1", "c2", "c3", "c4"]


@pytest.mark.parametrize(("sizes", "smallest"), [({"a": 3, "b": 2, "c": 4}, "b"), ({"a": 6, "b": 3}, "b")])
def test_the_smallest_speaker_is_moved_if_none_fits(listed, sizes, smallest):
    _fill(listed, _speakers(sizes))
    assert {name[0] for name in _dev(listed, 0.05)} == {smallest}


def test_a_single_speaker_is_divided_with_a_warning(listed, caplog):
    _fill(listed, _speakers({"a": 40}))
    assert len(_dev(listed, 0.1)) == 4
    assert "moved 4 of 40 utterances (10.0 %) from train to dev; all have the same speaker" in caplog.text


def test_a_single_utterance_stays_in_train(listed):
    _fill(listed, _speakers({"a": 1}))
    assert _dev(listed, 0.5) == []


@pytest.mark.parametrize("speaker", ["", "corpus/"])  # "corpus/" if there are several corpus directories
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


def test_a_dev_split_of_the_corpus_is_not_changed(listed, caplog):
    _fill(listed, _speakers({"a": 4, "b": 4}))
    listed.add_list([manifest.Utterance("x", "/x.wav", "x", "你", "", "dev")])
    with caplog.at_level(logging.WARNING):
        assert _dev(listed, 0.5) == ["x"]
    assert "--dev_fraction=0.5 is ignored, because the corpus has a dev split." in caplog.text
