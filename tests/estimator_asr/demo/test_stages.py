"""Stages of the demo: stamps, failures, interruptions, and the lock on the directory."""

import errno
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import time

import paths
import programs
import pytest

from estimator_asr.demo import stages
from tfrecord_builder import errors


def test_a_demo_directory_can_be_claimed_again_for_the_same_size(tmp_path):
    for _ in range(2):
        with stages.claim(tmp_path / "new" / "demo", "small") as lock:
            assert os.fstat(lock)
    assert (tmp_path / "new" / "demo" / "size.txt").read_text() == "small"


def test_refuses_another_size(tmp_path):
    with stages.claim(tmp_path, "small"):
        pass
    expected = "--size is full, but .*size.txt says small; remove "
    with pytest.raises(errors.UserError, match=expected), stages.claim(tmp_path, "full"):
        pass


def test_refuses_a_directory_where_another_demo_runs(tmp_path):
    expected = f"another demo, or a stage of a killed demo, is still running in {tmp_path}; wait "
    with stages.claim(tmp_path, "small"):
        with pytest.raises(errors.UserError, match=expected), stages.claim(tmp_path, "small"):
            pass
    with stages.claim(tmp_path, "small"):
        pass


def test_the_demo_runs_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with stages.claim(tmp_path, "small"):
        pass


def test_refuses_a_demo_whose_first_stages_are_not_finished(tmp_path):
    names = ("text", "speech", "train")
    planned = [stages.Stage(name, f"Make {name}", "platform", ()) for name in names]
    stages.check_order(planned, tmp_path)
    for stage in planned:
        stages.run(stage, tmp_path)
        stages.check_order(planned, tmp_path)
    changed = [planned[0], stages.Stage("speech", "Make speech", "platform", ("aliased",)), planned[2]]
    expected = "the stage 'Make speech' is not finished, but later stages are. .* Remove the directory, or"
    with pytest.raises(errors.UserError, match=expected):
        stages.check_order(changed, tmp_path)


def test_refuses_a_directory_with_other_files(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    expected = "contains files but no size.txt, so it does not belong to a demo"
    with pytest.raises(errors.UserError, match=expected), stages.claim(tmp_path, "small"):
        pass
    assert os.listdir(tmp_path) == ["letter.txt"]


def stage(*arguments, module="calendar", output=None):
    return stages.Stage("january", "Print January", module, arguments, output)


def test_runs_the_program_and_stamps_it(tmp_path):
    january = stage("2024", "1", output=tmp_path / "january.txt")
    assert stages.seconds_of_finished(january, tmp_path / "stamps") is None
    seconds = stages.run(january, tmp_path / "stamps")
    assert "January 2024" in (tmp_path / "january.txt").read_text()
    assert stages.seconds_of_finished(january, tmp_path / "stamps") == seconds
    assert sorted(os.listdir(tmp_path)) == ["january.txt", "stamps"]


def test_a_stamp_is_valid_only_for_the_same_command(tmp_path):
    stages.run(stage("2024", "1", output=tmp_path / "x"), tmp_path)
    assert stages.seconds_of_finished(stage("2025", "1", output=tmp_path / "x"), tmp_path) is None


def test_a_failed_program_is_named_and_leaves_neither_stamp_nor_output(tmp_path, capfd):
    failing = stage("no year", output=tmp_path / "x")
    with pytest.raises(errors.UserError, match=r"python -m calendar 'no year' > .*x: exit code is 2; see"):
        stages.run(failing, tmp_path / "stamps")
    assert "no year" in capfd.readouterr().err
    assert stages.seconds_of_finished(failing, tmp_path / "stamps") is None
    assert os.listdir(tmp_path) == []
    is_open = [os.path.realpath(path) for path in pathlib.Path("/proc/self/fd").iterdir()]
    assert not [path for path in is_open if path.startswith(str(tmp_path))]


@pytest.mark.parametrize(
    "number, said",
    [
        (signal.SIGKILL, r"killed by signal 9 \(Killed\); free memory"),
        (signal.SIGSEGV, r"killed by signal 11 \(Segmentation fault\); see above"),
    ],
)
def test_the_message_for_a_killed_program_names_the_signal(tmp_path, monkeypatch, number, said):
    (tmp_path / "dying.py").write_text(f"import os; os.kill(os.getpid(), {number:d})")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(errors.UserError, match=rf"^python -m dying: {said}.*\. Then run the demo again"):
        stages.run(stage(module="dying"), tmp_path / "stamps")


# A program with a worker in its process group; it creates the file `saved` when it receives SIGTERM.
SLEEPER = """
import os, pathlib, signal, subprocess, sys, time
def end(*_):
    pathlib.Path("saved").touch()
    sys.exit(143)
if "worker" not in sys.argv:
    signal.signal(signal.SIGTERM, end)
    worker = subprocess.Popen([sys.executable, "-m", "sleeper", "worker"])
    pathlib.Path("pids.tmp").write_text(f"{os.getpid()} {worker.pid}")
    os.rename("pids.tmp", "pids")
time.sleep(60)
"""
RUNNER = """
import fcntl, pathlib, signal
from estimator_asr.demo import __main__ as demo, stages
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # programs under nohup or in the background ignore signals
signal.signal(signal.SIGINT, signal.default_int_handler)
demo.exit_on(signal.SIGTERM, signal.SIGHUP)
with open("lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    stage = stages.Stage("sleep", "Sleep", "sleeper", ())
    stages.run(stage, pathlib.Path("stamps"), keep_open=[lock.fileno()])
"""


@pytest.fixture
def running(tmp_path):
    """A process that runs SLEEPER in tmp_path, and the process ids of SLEEPER and its worker."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    environment = {**os.environ, "PYTHONPATH": f"{paths.ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        programs.wait_until((tmp_path / "pids").exists)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        yield process, *pids
        process.kill()
    for pid in filter(_is_running, pids):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "signal_number, exit_code", [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)]
)
def test_an_interrupted_stage_lets_its_program_finish_cleanly_first(
    tmp_path, running, signal_number, exit_code
):
    """The program's workers end too. Closing the terminal sends SIGHUP."""
    process, sleeper, worker = running
    time.sleep(0.2)
    process.send_signal(signal_number)
    assert process.wait(timeout=30) == exit_code
    assert (tmp_path / "saved").exists()
    assert not (tmp_path / "stamps").exists()
    programs.wait_until(lambda: not _is_running(sleeper) and not _is_running(worker))


def test_a_program_that_outlives_its_runner_keeps_the_lock(tmp_path, running):
    process, sleeper, _ = running
    process.kill()
    process.wait()
    with open(tmp_path / "lock") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(sleeper, signal.SIGKILL)
        programs.wait_until(lambda: not _is_running(sleeper))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_running(pid: int) -> bool:
    try:
        return "(zombie)" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
