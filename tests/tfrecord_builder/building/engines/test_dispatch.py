import contextlib
import sys

import pytest
import text_units

from tfrecord_builder import errors
from tfrecord_builder.building import build_config
from tfrecord_builder.building.engines import dispatch

UNITS = [text_units.TextUnit(f"{name}.txt", name) for name in ("a", "b")]


def test_an_engine_is_one_entry(tmp_path, monkeypatch):
    opened = []

    @contextlib.contextmanager
    def open_engine(runner, num_workers):
        opened.append((runner, num_workers))
        yield "", lambda task, units, on_progress: map(task, units)
        opened.append("closed")

    monkeypatch.setitem(dispatch.ENGINES, "slurm", open_engine)
    dispatch.check("slurm", None)
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


def test_an_engine_that_refuses(monkeypatch):
    def open_engine(runner, num_workers):
        raise RuntimeError("two\n lines")

    monkeypatch.setitem(dispatch.ENGINES, "ray", open_engine)
    with pytest.raises(errors.UserError, match="--runner=ray: the engine failed .two lines.; see"):
        with dispatch.connect("ray"):
            pass


def test_flags_of_programs_that_do_not_fit():
    usual = dict(corpus_dir=("in",), output_dir="out")
    with pytest.raises(errors.UserError, match="--runner=ray and --num_workers=2 exclude each other; leave"):
        build_config.BuildConfig(runner="ray", num_workers=2, **usual)
    with pytest.raises(
        errors.UserError, match="--runner=DirectRunner: builds no longer use Apache Beam; pass --num_workers"
    ):
        build_config.BuildConfig(runner="DirectRunner", **usual)
    assert build_config.BuildConfig(runner="local", num_workers=2, **usual).num_workers == 2
