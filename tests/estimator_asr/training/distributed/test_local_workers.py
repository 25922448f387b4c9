"""The launcher with small scripts in the place of training; test_workers has the real thing."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import paths
import pytest

from estimator_asr.training.distributed import local_workers
from tfrecord_builder import errors

ROOT = paths.ROOT
# What every script knows: the model directory (its argument), its name, and how often it was started before.
PREAMBLE = """
import os, pathlib, signal, sys, time
from estimator_asr.training.devices import cluster
model_dir, me = pathlib.Path(sys.argv[1]), cluster.read().name
starts = model_dir / f"{me}.starts"
before = len(starts.read_text()) if starts.exists() else 0
starts.write_text("x" * (before + 1))
def checkpoint(step): (model_dir / f"model.ckpt-{step}.index").touch()
def wait_for_all():  # else one is ended before it has counted its start
    for path in (model_dir / f"{name}.starts" for name in ("chief", "worker-1", "evaluator")):
        while not path.exists() or len(path.read_text()) <= before:
            time.sleep(0.01)
"""


@pytest.fixture
def said(monkeypatch):
    lines = []
    for level in ("info", "warning", "error"):
        monkeypatch.setattr(local_workers.logging, level, lambda text, *values: lines.append(text % values))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return lines


def run(tmp_path, script, **options):
    program = tmp_path / "program.py"
    program.write_text(PREAMBLE + script)
    return local_workers.run([sys.executable, str(program), str(tmp_path)], 2, str(tmp_path), **options)


def count_starts(tmp_path, name):
    return len((tmp_path / f"{name}.starts").read_text())


def test_three_processes_of_one_cluster_come_to_their_end(tmp_path, said):
    script = "(model_dir / f'{me}.json').write_text(os.environ['TF_CONFIG']); print('I am', me)"
    assert run(tmp_path, script) == 0
    configs = [
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("chief", "worker-1", "evaluator")
    ]
    assert configs[0]["cluster"] == configs[1]["cluster"] == configs[2]["cluster"]
    addresses = [address for tasks in configs[0]["cluster"].values() for address in tasks]
    assert len(set(addresses)) == 3 and all(address.startswith("127.0.0.1:") for address in addresses)
    assert [config["task"]["type"] for config in configs] == ["chief", "worker", "evaluator"]
    assert (tmp_path / "worker-1.log").read_text() == "I am worker-1\n"
    assert said == [f"2 workers and an evaluator on this machine; logs in {tmp_path}/*.log"]


def test_the_evaluator_speaks_at_the_terminal_too(tmp_path, said, capfd):
    assert run(tmp_path, "print('chief speaks' if me == 'chief' else f'{me} here')") == 0
    shown = capfd.readouterr()
    assert shown.out == "chief speaks\n" and shown.err == "evaluator: evaluator here\n"
    assert (tmp_path / "evaluator.log").read_text() == "evaluator here\n"


def test_one_that_dies_starts_all_again(tmp_path, said):
    script = """
if before == 0:
    if me == "worker-1":
        wait_for_all()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)  # as workers wait for a lost one
"""
    assert run(tmp_path, script) == 0
    assert count_starts(tmp_path, "worker-1") == 2
    assert said[1:] == ["worker-1 was ended by SIGKILL; all start again from the last checkpoint"]


def test_without_a_new_checkpoint_it_gives_up_and_shows_the_last_lines(tmp_path, said):
    script = "print('no memory'); sys.exit(70) if me == 'worker-1' else time.sleep(600)"
    with pytest.raises(
        errors.UserError,
        match="worker-1 ended with exit code 70 after 3 restarts without a new checkpoint, expected progress",
    ):
        run(tmp_path, script)
    assert count_starts(tmp_path, "worker-1") == 4
    assert said[-1] == "worker-1: no memory"


def test_a_new_checkpoint_allows_more_restarts(tmp_path, said):
    script = """
if me == "chief" and before < 6:
    wait_for_all()
    checkpoint(before)
    sys.exit(70)
if before < 6:
    time.sleep(600)
"""
    assert run(tmp_path, script) == 0
    assert count_starts(tmp_path, "chief") == 7


def test_what_no_restart_cures_is_said_once_by_the_chief(tmp_path, said, capfd):
    script = "print('error: flag --x=1: expected 2', file=sys.stderr); sys.exit(1)"
    assert run(tmp_path, script) == 1
    assert count_starts(tmp_path, "chief") == 1
    error = capfd.readouterr().err.splitlines()
    assert [line for line in error if not line.startswith("evaluator: ")] == ["error: flag --x=1: expected 2"]


def test_what_only_another_worker_refuses_is_said_in_its_words(tmp_path, said, monkeypatch):
    monkeypatch.setattr(local_workers, "_OTHERS_END_SECONDS", 0.1)
    script = """
if me == "worker-1":
    print("error: data: shard is missing, expected it", file=sys.stderr)
    sys.exit(1)
time.sleep(600)
"""
    with pytest.raises(errors.UserError, match="^data: shard is missing, expected it$"):
        run(tmp_path, script)


def test_one_that_is_told_to_stop_ends_all_in_order(tmp_path, said):
    script = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
if me == "worker-1":
    sys.exit(143)
time.sleep(600)
"""
    assert run(tmp_path, script) == 143
    assert count_starts(tmp_path, "worker-1") == 1


@pytest.mark.parametrize("gpus, workers", [(4, ["0,2", "1,3"]), (3, ["0,2", "1"])])
def test_gpus_are_shared_out_and_the_evaluator_has_none(tmp_path, said, gpus, workers):
    script = "(model_dir / f'{me}.gpus').write_text(os.environ['CUDA_VISIBLE_DEVICES'])"
    assert run(tmp_path, script, num_gpus=gpus) == 0
    names = ("chief", "worker-1", "evaluator")
    assert [(tmp_path / f"{name}.gpus").read_text() for name in names] == [*workers, "-1"]


def test_more_workers_than_gpus_are_refused(tmp_path):
    with pytest.raises(errors.UserError, match="--num_local_workers is 2, expected at most 1, the GPUs"):
        local_workers.Launcher(["true"], 2, str(tmp_path), num_gpus=1)


def test_the_latest_step_is_a_number_not_a_name(tmp_path):
    assert local_workers.latest_step(str(tmp_path)) == -1
    for step in (9, 100, 20):
        (tmp_path / f"model.ckpt-{step}.index").touch()
    assert local_workers.latest_step(str(tmp_path)) == 100


SLEEPER = """
signal.signal(signal.SIGTERM, lambda *_: {answer})
(model_dir / f"{{me}}.pid").write_text(str(os.getpid()))
time.sleep(600)
"""


def start_sleepers(tmp_path, answer):
    """A launcher in a process of its own; returns it and the ids of what it started."""
    (tmp_path / "program.py").write_text(PREAMBLE + SLEEPER.format(answer=answer))
    launch = (
        "import sys; from estimator_asr.training.devices import local_workers; "
        "sys.exit(local_workers.run(sys.argv[2:], 2, sys.argv[1]))"
    )
    command = [sys.executable, "-c", launch, str(tmp_path)]
    command += [sys.executable, str(tmp_path / "program.py"), str(tmp_path)]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL
    )
    paths = [tmp_path / f"{name}.pid" for name in ("chief", "worker-1", "evaluator")]
    wait_until(lambda: all(path.exists() and path.read_text() for path in paths))
    return process, [int(path.read_text()) for path in paths]


def wait_until(is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_gone(pid):
    try:
        return "\nState:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@pytest.mark.parametrize("number, exit_code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_the_launcher_ends_all_in_order(tmp_path, number, exit_code):
    process, children = start_sleepers(tmp_path, "sys.exit(143)")
    process.send_signal(number)
    assert process.wait(60) == exit_code
    assert all(map(is_gone, children))


def test_a_second_signal_ends_them_at_once(tmp_path):
    process, children = start_sleepers(tmp_path, "None")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None  # it waits for the checkpoint
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert all(map(is_gone, children))


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_nothing_outlives_a_launcher_that_is_killed(tmp_path):
    process, children = start_sleepers(tmp_path, "None")
    process.kill()
    process.wait(60)
    wait_until(lambda: all(map(is_gone, children)))
