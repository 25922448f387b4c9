import contextlib
import logging
import os
import sys
import types

import built_data
import pytest
import text_units

from tfrecord_builder import errors
from tfrecord_builder.building.engines import dispatch, failures

UNITS = text_units.UNITS


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
    assert [each.file for each in receipts] == ["a.txt", "b.txt", "c.txt"]
    assert opened == [("slurm", None), "closed"]


@pytest.mark.parametrize("runner, package", [("spark", "pyspark"), ("ray", "ray")])
def test_an_engine_that_is_not_installed(monkeypatch, runner, package):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf'(?i){runner} is not installed .*"estimator-asr\[{runner}\]"\.$'
    with pytest.raises(errors.UserError, match=message), dispatch.connect(runner):
        pass


def test_an_engine_that_fails_to_open_is_explained(monkeypatch):
    def open_engine(runner, num_workers):
        raise RuntimeError("two\n lines")

    monkeypatch.setitem(dispatch.ENGINES, "ray", open_engine)
    message = "--runner=ray: the engine failed .two lines.; see"
    with pytest.raises(errors.UserError, match=message), dispatch.connect("ray"):
        pass


@pytest.mark.parametrize(
    "runner, problem",
    [
        ("ray", "--runner=ray does not support --num_workers=2; leave --num_workers out"),
        ("DirectRunner", "--runner=DirectRunner: builds no longer use Apache Beam; pass --num_workers=N"),
    ],
)
def test_invalid_runner_flags_are_refused(tmp_path, runner, problem):
    with pytest.raises(errors.UserError, match=problem):
        built_data.build(tmp_path / "corpus", tmp_path / "out", runner=runner, num_workers=2)
    assert not (tmp_path / "out").exists()


def _run(directory, run, units=UNITS, address=""):
    runner = dispatch.UnitRunner("ray", address, run, ())
    return runner(units, text_units.TextWriter(str(directory)), "writing")


def _run_here(task, units, on_progress):
    yield from map(task, units)


class Unreliable:
    """An engine that loses its workers after some units of each attempt."""

    def __init__(self, *counts, reason="gone"):
        self.counts, self.reason, self.attempts = list(counts), reason, []

    def __call__(self, task, units, on_progress):
        self.attempts.append(len(units))
        yield from map(task, units[: self.counts.pop(0)])
        raise ChildProcessError(self.reason)


def test_receipts_come_in_the_order_of_the_units_and_finished_units_do_not_run(tmp_path):
    backwards = lambda task, units, on_progress: map(task, units[::-1])  # noqa: E731
    first = _run(tmp_path, backwards)
    assert [each.file for each in first] == ["a.txt", "b.txt", "c.txt"]
    assert (tmp_path / "b.txt").read_text() == "b"
    os.remove(tmp_path / "b.txt")
    again = []
    run = lambda task, units, on_progress: again.extend(units) or map(task, units)  # noqa: E731
    assert _run(tmp_path, run) == first
    assert len(again) == 1


def test_notes_of_a_unit_are_printed_once(tmp_path, capsys):
    twice = lambda task, units, on_progress: [task(units[0]), task(units[0])]  # noqa: E731
    _run(tmp_path, twice, [text_units.TextUnit("r.txt", "reject")])
    assert capsys.readouterr().err == "error: u: no transcript\n"


def test_units_of_lost_workers_run_again(tmp_path, caplog):
    engine = Unreliable(1, 1, 1)
    with caplog.at_level(logging.WARNING):
        assert len(_run(tmp_path, engine)) == 3
    assert engine.attempts == [3, 2, 1]
    assert "--runner=ray: the engine failed (gone); see" in caplog.text
    assert "finished work is kept. Retrying 2 units of work." in caplog.text


def test_an_attempt_that_completes_no_unit_ends_the_run(tmp_path):
    engine = Unreliable(1, 0)
    with pytest.raises(errors.UserError, match="--runner=ray: the engine failed .gone.; see .* is kept."):
        _run(tmp_path, engine)
    assert engine.attempts == [3, 2]
    assert (tmp_path / "a.txt").exists()


def test_an_error_of_the_engine_itself_ends_the_run(tmp_path):
    def fail(task, units, on_progress):
        yield task(units[0])
        raise OSError("Py4J is gone")

    with pytest.raises(errors.UserError, match="--runner=ray: the engine failed .Py4J is gone.; see the"):
        _run(tmp_path, fail)


def test_the_error_of_a_unit_ends_the_run(tmp_path):
    units = [*UNITS, text_units.TextUnit("d.txt", "refuse")]
    with pytest.raises(errors.UserError, match="^u1: cannot be used; leave it out.$"):
        _run(tmp_path, _run_here, units)
    assert sorted(name for name in os.listdir(tmp_path) if "json" not in name) == ["a.txt", "b.txt", "c.txt"]


def test_a_unit_written_to_another_machine_is_reported_as_missing(tmp_path):
    def write_elsewhere(task, units, on_progress):
        yield from map(task, units)
        os.remove(tmp_path / "a.txt.json")

    message = f"wrote a.txt, but the file is missing from {tmp_path} on this machine"
    with pytest.raises(errors.UserError, match=message):
        _run(tmp_path, write_elsewhere)


class Clock:
    """An engine whose messages come at given times: (seconds since the start, message)."""

    def __init__(self, monkeypatch, messages):
        self.messages, self.now = messages, 0.0
        monkeypatch.setattr(dispatch, "time", types.SimpleNamespace(monotonic=lambda: self.now))

    def __call__(self, task, units, on_progress):
        for seconds, message in self.messages:
            self.now = seconds
            yield message
        yield from map(task, units)


def test_a_scheduler_without_workers_ends_the_run_after_five_minutes(tmp_path, monkeypatch):
    patient = Clock(monkeypatch, [(299.0, 0), (300.0, 1), (600.0, 0)])
    assert len(_run(tmp_path, patient, UNITS[:1])) == 1
    message = "--runner=ray: no worker has run anything for 300 seconds; start workers, or wait .* is kept"
    with pytest.raises(errors.UserError, match=message):
        _run(tmp_path, Clock(monkeypatch, [(299.0, 1), (600.0, 0)]))


def test_a_scheduler_that_does_not_answer_for_45_seconds_ends_the_run(tmp_path, monkeypatch):
    answers = {40.0: True, 45.0: False, 84.0: False, 90.0: True, 134.0: False, 136.0: False}
    clock = Clock(monkeypatch, [(seconds, 1) for seconds in list(answers)[:-1]])
    monkeypatch.setattr(failures, "is_reachable", lambda _: answers[clock.now])
    assert len(_run(tmp_path, clock, UNITS[:1])) == 1
    clock.messages.append((136.0, 1))
    clock.now = 0.0
    message = "--runner=ray: the scheduler has not answered for 45 sec.*kept"
    with pytest.raises(errors.UserError, match=message):
        _run(tmp_path, clock)


def test_progress_shows_utterances_units_and_rejections(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(
        dispatch.Progress, "set_postfix", lambda self, refresh, **values: shown.append((self.n, values))
    )
    _run(tmp_path, _run_here, [*UNITS[:2], text_units.TextUnit("r.txt", "reject")])
    assert shown[-1] == (2, {"units": "3/3", "rejected": 1})
    shown.clear()
    _run(tmp_path, _run_here, UNITS)  # two of the three units are already finished
    assert [values["units"] for _, values in shown] == ["1/3", "2/3", "3/3"]


def test_parts_of_recordings_are_shown_with_two_digits():
    with dispatch.Progress([text_units.TextUnit("a")] * 3, "work", "recording") as bar:
        bar.note("a", 0.1, 0)
        bar.note("b", 0.2, 0)  # the sum is 0.30000000000000004
        assert bar.format_dict["n"] == 0.3 and bar.format_dict["unit"] == "recording"
