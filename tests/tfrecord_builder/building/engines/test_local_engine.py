import multiprocessing
import os
import pickle
import re
import signal
import threading

import pytest
import small_shards
import text_units

from tfrecord_builder import errors
from tfrecord_builder.building.engines import dispatch, failures, local_engine, tasks

UNITS = text_units.UNITS


def _run(directory, units=UNITS, num_workers=2):
    return small_shards.run_here(units, text_units.TextWriter(str(directory)), "writing", num_workers)


def _message(directory, unit=UNITS[0]):
    """Returns the message that a worker process receives for a unit."""
    return tasks.make(text_units.TextWriter(str(directory)), ()), pickle.dumps(unit)


def test_a_worker_that_dies_before_it_reads_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(local_engine, "run_worker", os.getpid)  # fails, because it takes no argument
    units = [text_units.TextUnit(name, "x" * 1_000_000) for name in "ab"]  # larger than a pipe's buffer
    message = "the engine failed .a worker process ended with exit code 1.; see"
    with pytest.raises(errors.UserError, match=message):
        _run(tmp_path, units)


@pytest.mark.parametrize("units, num_workers", [(UNITS, 1), (UNITS[:1], 8)])
def test_a_single_worker_is_this_process_and_reports_progress(tmp_path, monkeypatch, units, num_workers):
    told = []
    monkeypatch.setattr(local_engine, "start_worker", lambda: pytest.fail("a process was started"))
    monkeypatch.setattr(dispatch.Progress, "note", lambda self, *message: told.append(message))
    assert [receipt.file for receipt in _run(tmp_path, units, num_workers)] == [unit.file for unit in units]
    assert told[:2] == [("a.txt", 1, 0), ("a.txt", 1, 0)]  # after its utterance, and when the unit ends


def test_ctrl_c_ends_a_worker_without_output(tmp_path, capfd):
    connection, process = local_engine.start_worker()
    connection.send(_message(tmp_path))
    while not isinstance(connection.recv(), tasks.Outcome):
        pass
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == -signal.SIGINT
    assert "Traceback" not in capfd.readouterr().err


class _Worker:
    """A fake connection and process of a worker; records the calls."""

    exitcode = -9

    def __init__(self, events):
        self.events = events

    def send(self, message):
        self.events.append("send")
        raise BrokenPipeError

    def recv(self):
        raise ConnectionResetError

    def join(self):
        self.events.append("join")


def test_all_workers_are_started_before_units_are_sent_and_a_broken_pipe_is_a_dead_worker(monkeypatch):
    events = []

    def start():
        events.append("start")
        return (_Worker(events),) * 2

    monkeypatch.setattr(local_engine, "start_worker", start)
    monkeypatch.setattr(multiprocessing.connection, "wait", lambda connections: connections)
    with local_engine.open_engine("local", 2) as (_, run):
        with pytest.raises(failures.WorkerKilledError, match="a worker process ended with exit code -9"):
            list(run(None, [b"one", b"two", b"three"], None))
    assert events == ["start", "start", "send", "send", "join", "join"]


def test_units_of_a_killed_worker_run_again_with_the_same_result(tmp_path, monkeypatch, caplog):
    start, kills = local_engine.start_worker, []

    def start_and_kill_the_first():
        connection, process = start()
        if not kills:
            kills.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
        return connection, process

    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    expected = _run(tmp_path / "here", num_workers=1)
    monkeypatch.setattr(local_engine, "start_worker", start_and_kill_the_first)
    assert _run(tmp_path / "there") == expected
    assert len(kills) == 1
    assert "--runner=local: a worker was killed, probably because mem" in caplog.text
    assert re.search(r" Retrying [1-9]\d* units of work\.", caplog.text)


@pytest.fixture
def pipe(monkeypatch):
    """The ends of a pipe to a worker in this process, which does not change the signal handlers."""
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(local_engine, "REPORT_SECONDS", 0)
    return multiprocessing.Pipe()


def test_a_worker_sends_progress_then_its_outcome_and_ends_with_the_pipe(tmp_path, pipe):
    ours, theirs = pipe
    worker = threading.Thread(target=local_engine.run_worker, args=(theirs,))
    worker.start()
    ours.send(_message(tmp_path))
    assert [ours.recv(), ours.recv()] == [("a.txt", 1, 0), tasks.Outcome("a.txt", 1, 0)]
    ours.close()
    worker.join()


def test_a_worker_ends_quietly_when_the_parent_is_gone(tmp_path, pipe):
    ours, theirs = pipe
    ours.send(_message(tmp_path))
    ours.close()
    local_engine.run_worker(theirs)  # its first report fails, because the pipe is broken
    assert os.listdir(tmp_path) == []
