import contextlib
import sys

import pytest
import small_corpora
import text_units

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import builder
from tfrecord_builder.building.engines import dispatch

UNITS = [text_units.TextUnit(f"{name}.txt", name) for name in ("a", "b")]


def test_an_engine_is_added_with_one_entry(tmp_path, monkeypatch):
    opened = []

    @contextlib.contextmanager
    def open_engine(runner, num_workers):
        opened.append((runner, num_workers))
        yield "", lambda task, units, on_progress: map(task, units)
        opened.append("closed")

    monkeypatch.setitem(dispatch.ENGINES, "slurm", open_engine)
    with dispatch.connect("slurm") as run:
        receipts = run(UNITS, text_units.TextWriter(str(tmp_path)), "writing")
    assert [each.file for each in receipts] == ["a.txt", "b.txt"]
    assert opened == [("slurm", None), "closed"]


@pytest.mark.parametrize("runner, package", [("spark", "pyspark"), ("ray", "ray")])
def test_an_engine_that_is_not_installed(monkeypatch, runner, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        errors.UserError, match=rf'(?i){runner} is not installed .*"estimator-asr\[{runner}\]"\.$'
    ):
        with dispatch.connect(runner):
            pass


def test_an_engine_that_fails_to_open_is_explained(monkeypatch):
    def open_engine(runner, num_workers):
        raise RuntimeError("two\n lines")

    monkeypatch.setitem(dispatch.ENGINES, "ray", open_engine)
    with pytest.raises(errors.UserError, match="--runner=ray: the engine failed .two lines.; see"):
        with dispatch.connect("ray"):
            pass


@pytest.mark.parametrize(
    "runner, problem",
    [
        ("ray", "--runner=ray does not support --num_workers=2; leave --num_workers out"),
        ("DirectRunner", "--runner=DirectRunner: builds no longer use Apache Beam; pass --num_workers=N"),
    ],
)
def test_invalid_runner_flags_are_refused(tmp_path, runner, problem):
    corpus = small_corpora.make_manifest_corpus(tmp_path / "corpus")
    usual = dict(corpus_dir=(corpus,), output_dir=str(tmp_path / "out"), num_workers=2)
    with pytest.raises(errors.UserError, match=problem):
        builder.build(builder.BuildConfig(runner=runner, **usual), frontend.FrontendConfig())
    assert not (tmp_path / "out").exists()
