import hashlib
import os
import pickle
import platform

import numpy as np
import pytest
import text_units

from tfrecord_builder.building.engines import tasks


def _task(directory, shared=()):
    return tasks.make(text_units.TextWriter(str(directory)), shared)


def _run(task, text="one"):
    return task(pickle.dumps(text_units.TextUnit("a.txt", text)))


def test_an_outcome_counts_the_utterances(tmp_path):
    assert _run(_task(tmp_path)) == tasks.Outcome("a.txt", 1, 0)
    assert _run(_task(tmp_path), "reject") == tasks.Outcome("a.txt", 1, 1, notes=("error: u: no transcript",))


def test_a_unit_that_runs_twice_is_written_once(tmp_path):
    _run(_task(tmp_path))
    before = os.stat(tmp_path / "a.txt")
    assert _run(_task(tmp_path)) == tasks.Outcome("a.txt", 1, 0)
    assert os.stat(tmp_path / "a.txt") == before


@pytest.mark.parametrize(
    "text, problem",
    [
        ("refuse", "u1: cannot be used; leave it out."),
        ("overflow", f"worker {platform.node()}: memory ran out; run fewer workers per machine."),
    ],
)
def test_failures_of_a_unit_become_problems_of_its_outcome(tmp_path, text, problem):
    assert _run(_task(tmp_path), text) == tasks.Outcome(problem=problem)


def test_a_bug_is_named_and_its_traceback_is_logged(tmp_path, caplog):
    assert _run(_task(tmp_path), "break").problem == (
        f"worker {platform.node()}: KeyError('a.txt') is a bug; "
        "report it with the traceback in the worker's log."
    )
    assert "Traceback (most recent call last)" in caplog.text and "KeyError: 'a.txt'" in caplog.text


@pytest.mark.parametrize("name", ["Python", "numpy", "the program's source"])
def test_another_version_is_refused_before_anything_is_unpickled(tmp_path, name):
    here = tasks.list_versions()
    assert _run(tasks.WorkerTask({**here, name: "0.0"}, b"no pickle")).problem == (
        f"worker {platform.node()}: {name} is {here[name]}, expected 0.0 as on the machine that started "
        "the command; install that version on the worker."
    )


def test_a_shared_path_that_is_missing_on_the_worker_is_reported(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    task = _task(tmp_path, [str(corpus), str(tmp_path / "none"), "s3://bucket/corpus"])
    assert _run(task).problem == ""  # paths that are missing here too are not checked
    corpus.rmdir()
    assert f"{corpus} does not exist; mount it on the worker under the same name" in _run(task).problem


def test_relative_paths_begin_where_the_command_was_started(tmp_path, monkeypatch):
    (tmp_path / "here" / "corpus").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    task = _task("corpus", ["corpus"])
    monkeypatch.chdir(tmp_path)
    assert _run(task).problem == ""
    assert (tmp_path / "here" / "corpus" / "a.txt").exists()
    monkeypatch.chdir(tmp_path)
    os.rename(tmp_path / "here", tmp_path / "elsewhere")
    assert ": corpus does not exist; mount it on the worker under the same name" in _run(task).problem


def test_credentials_reach_the_worker_and_are_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "top-secret")
    monkeypatch.setenv("OTHER_SECRET", "private")
    task = _task(tmp_path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.setenv("OTHER_SECRET", "")
    _run(task)
    assert (os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["OTHER_SECRET"]) == ("top-secret", "")
    assert "top-secret" not in repr(task)


def test_list_versions(monkeypatch):
    monkeypatch.setattr(tasks, "_LIBRARIES", ("numpy", "no-such-library"))
    found = tasks.list_versions.__wrapped__()
    assert (found["Python"], found["numpy"]) == (platform.python_version(), np.__version__)
    assert found["no-such-library"] == "missing"
    monkeypatch.setattr(tasks, "_PACKAGES", ("no_such_package",))
    no_source = tasks.list_versions.__wrapped__()["the program's source"]
    assert no_source == hashlib.sha256().hexdigest()[:12]
