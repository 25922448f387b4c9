"""Corpora that workers list: the same catalog, errors and warnings as without an engine."""

import os
import pathlib

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import build_config, builder, listing
from tfrecord_builder.building.engines import dispatch, local_engine
from tfrecord_builder.corpora import registry
from tfrecord_builder.output import staging


@pytest.fixture(autouse=True)
def _engine(monkeypatch):
    """Lets the local engine, with one worker, stand for a cluster."""
    monkeypatch.setitem(dispatch.ENGINES, "ray", lambda runner, _: local_engine.open_engine(runner, 1))


def _contents(directory):
    return {name: (directory / name).read_bytes() for name in sorted(os.listdir(directory))}


def _build(output_dir, corpus_dirs, corpus="manifest", **options):
    """Builds into a directory; returns its files."""
    dirs = tuple(map(str, corpus_dirs))
    usual = dict(corpus=corpus, corpus_dir=dirs, output_dir=str(output_dir), num_shards=2)
    builder.build(build_config.BuildConfig(**usual, **options), frontend.FrontendConfig())
    return _contents(output_dir)


def _make_two_corpora(directory):
    return [small_corpora.make_manifest_corpus(directory / name, 4, 1, prefix=name) for name in ("b", "a")]


def test_every_published_file_has_the_bytes_of_the_local_build(tmp_path):
    corpus = small_corpora.make_manifest_corpus(tmp_path / "in", num_train=12, num_dev=3)
    small_corpora.write_audio(tmp_path / "in" / "audio" / "u03.wav", 0 * small_corpora.tone(0.5))
    os.remove(tmp_path / "in" / "audio" / "u05.wav")
    expected = _build(tmp_path / "local", [corpus], num_workers=1, max_rejected=0.5)
    assert len(expected) == 14  # 2 splits x 2 shards with their items, and six files
    assert _build(tmp_path / "engine", [corpus], runner="ray", max_rejected=0.5) == expected


def test_the_launcher_reads_no_corpus(tmp_path, monkeypatch):
    def refuse(layout, corpus_dirs, position=None):
        assert position is not None, "the launcher lists the corpus"
        return list_utterances(layout, corpus_dirs, position)

    list_utterances = registry.list_utterances
    corpora = _make_two_corpora(tmp_path / "in")
    expected = _build(tmp_path / "local", corpora, num_workers=1, dev_fraction=0.2)
    monkeypatch.setattr(registry, "list_utterances", refuse)
    assert _build(tmp_path / "engine", corpora, runner="ray", dev_fraction=0.2) == expected


def _break(corpora, problem):
    if problem == "a missing column":
        small_corpora.write_text(os.path.join(corpora[1], "manifest.tsv"), "id\taudio\n")
    elif problem == "a missing directory":
        corpora[1] += "-missing"
    elif problem == "a duplicate directory":
        corpora[1] = corpora[0]
    else:  # of both directories; and an error that comes later
        names = {"a duplicate id": ("x", "x"), "an empty id": ("x", "")}[problem]
        for corpus, name in zip(corpora, names):
            with open(os.path.join(corpus, "manifest.tsv"), "a", encoding="utf-8") as file:
                file.write(f"{name}\taudio/a00.wav\ts\t你好\t\ttrain\n")
        corpora.append(corpora[0] + "-missing")


@pytest.mark.parametrize(
    "problem",
    ["a missing column", "a missing directory", "a duplicate directory", "a duplicate id", "an empty id"],
)
def test_the_error_of_a_corpus_is_the_sentence_of_the_local_build(tmp_path, problem):
    corpora = _make_two_corpora(tmp_path / "in")
    _break(corpora, problem)
    said = []
    for options in (dict(num_workers=1), dict(runner="ray")):
        with pytest.raises(errors.UserError) as caught:
            _build(tmp_path / "out", corpora, **options)
        said.append(str(caught.value))
    assert said[0] == said[1] and "ray" not in said[0]
    assert not staging.is_complete(str(tmp_path / "out"))


def test_the_corpus_is_listed_again_by_the_next_build(tmp_path):
    corpora = _make_two_corpora(tmp_path / "in")
    _break(corpora, "an empty id")
    with pytest.raises(errors.UserError, match="line 7: id or audio is empty; fill in both"):
        _build(tmp_path / "out", corpora, runner="ray")
    corpora = _make_two_corpora(tmp_path / "in")
    expected = _build(tmp_path / "local", corpora, num_workers=1)
    assert _build(tmp_path / "out", corpora, runner="ray") == expected


def test_a_list_that_is_damaged_is_refused(tmp_path, monkeypatch):
    list_on_engine = listing.list_on_engine

    def damage(layout, corpus_dirs, directory, run):
        def run_and_damage(units, writer, title):
            receipts = run(units, writer, title)
            path = pathlib.Path(directory, units[-1].file)
            path.write_bytes(path.read_bytes().replace(b"a00", b"a\t0"))
            return receipts

        return list_on_engine(layout, corpus_dirs, directory, run_and_damage)

    monkeypatch.setattr(listing, "list_on_engine", damage)
    with pytest.raises(errors.UserError, match="00001.rows: sha256 is .*, expected .*; check the disk or"):
        _build(tmp_path / "out", _make_two_corpora(tmp_path / "in"), runner="ray")


def test_a_warning_of_a_reader_is_told_once(tmp_path, caplog):
    corpus_trees.make_lhotse_corpus(tmp_path / "in")
    for name in ("musan_cuts.jsonl.gz", "noise_cuts.jsonl.gz"):
        corpus_trees.write_gzip(tmp_path / "in" / name, "")
    _build(tmp_path / "out", [tmp_path / "in"], "lhotse", runner="ray", max_rejected=1.0)
    assert caplog.text.count("not read: musan_cuts.jsonl.gz, noise_cuts.jsonl.gz") == 1
