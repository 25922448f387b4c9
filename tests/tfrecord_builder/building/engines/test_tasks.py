import os
import pickle
import platform

import pytest
import text_units

from tfrecord_builder.building.engines import tasks


def _task(directory, shared=()):
    return tasks.make(text_units.TextWriter(str(directory)), shared)


def _run(task, text="one"):
    return task(pickle.dumps(text_units.TextUnit("a.txt", text)))


def test_an_outcome_counts_the_utterances(tmp_path):
    assert _run(_task(tmp_path)) == tasks.Outcome("a.txt", 1, 0)
    assert _run(_task(tmp_path), "reject") == tasks.Outcome("a.txt", 1, 1)


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
def test_problems_are_sentences(tmp_path, text, problem):
    assert _run(_task(tmp_path), text) == tasks.Outcome(problem=problem)


def test_a_bug_comes_with_its_traceback(tmp_path):
    outcome = _run(_task(tmp_path), "break")
    assert outcome.problem.endswith(
        "KeyError('a.txt') is a bug of this program; report it with the traceback above."
    )
    assert outcome.traceback.endswith("KeyError: 'a.txt'\n")


@pytest.mark.parametrize("name", ["Python", "numpy", "tfrecord_builder"])
def test_another_version_is_refused_before_anything_is_unpickled(tmp_path, name):
    task = tasks.Task(("tfrecord_builder",), {**tasks.list_versions(), name: "0.0"}, b"no pickle")
    problem = _run(task).problem
    assert (
        f"{name} is {tasks.list_versions()[name]}, expected 0.0 as on the machine of the command; " in problem
    )


def test_a_path_that_the_worker_does_not_see(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    task = _task(tmp_path, [str(corpus), str(tmp_path / "none"), "s3://bucket/corpus"])
    assert _run(task).problem == ""  # what does not exist here either has another message
    corpus.rmdir()
    assert f"{corpus} does not exist; mount it there under the same name" in _run(task).problem


def test_credentials_reach_the_worker_and_are_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "top-secret")
    monkeypatch.setenv("OTHER_SECRET", "private")
    task = _task(tmp_path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.setenv("OTHER_SECRET", "")
    _run(task)
    assert (os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["OTHER_SECRET"]) == ("top-secret", "")
    assert "top-secret" not in repr(task)


def test_versions(monkeypatch):
    monkeypatch.setattr(tasks, "_LIBRARIES", ("numpy", "no-such-library"))
    found = tasks.list_versions.__wrapped__(("tfrecord_builder", "no_such_package"))
    assert found["Python"] == platform.python_version() and found["no-such-library"] == "missing"
    assert len(found["tfrecord_builder"]) == 12 and found["no_such_package"] == "e3b0c44298fc"  # of nothing
