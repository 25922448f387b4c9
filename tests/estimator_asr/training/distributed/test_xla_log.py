from __future__ import annotations

import os
import re
import subprocess
import sys

import paths
import pytest

from estimator_asr.training.distributed import xla_log

ROOT = paths.ROOT
LINE = (
    "2026-11-21 17:47:21.483100: I tensorflow/compiler/jit/device_compilation_profiler.cc:113] Compiled "
    "cluster_{} {} times, compile time: {} us, cumulative: 266081 us (0 us / 266 ms)\n"
)


def test_lines_of_compilations_are_counted_once_each(tmp_path):
    log = xla_log.CompilationLog(str(tmp_path / "log"))
    assert log.read() == (0, 0, 0.0)
    with open(tmp_path / "log", "a") as file:
        file.write("2026-11-21 17:47:21.1: I tensorflow/core/util/port.cc:113] oneDNN is on\n")
        file.write(
            LINE.format(0, 1, 500_000) + LINE.format(1, 1, 1_000_000) + LINE.format(1, 2, 250_000)[:90]
        )
        file.flush()
        assert log.read() == (2, 2, 1.5)
        file.write(LINE.format(1, 2, 250_000)[90:])
        file.flush()
        assert log.read() == log.read() == (3, 2, 1.75)


def test_a_log_of_an_earlier_run_is_not_counted(tmp_path):
    (tmp_path / "log").write_text(LINE.format(0, 1, 5))
    assert xla_log.CompilationLog(str(tmp_path / "log")).read().count == 0


def test_a_line_is_logged_when_the_count_changed(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(xla_log.logging, "info", lambda text, *values: lines.append(text % values))
    hook = xla_log.CompilationHook(xla_log.CompilationLog(str(tmp_path / "log")), every_steps=2)
    (tmp_path / "log").write_text(LINE.format(0, 1, 2_000_000) + LINE.format(0, 2, 1_000_000))
    for _ in range(5):
        hook.after_run(None, None)
    assert lines == ["XLA compiled 2 times in 3.0 s (1 parts of the graph, each once a shape)"]
    hook.end(None)
    assert len(lines) == 1


def test_the_program_starts_again_only_if_its_variables_are_not_set(monkeypatch):
    started = []
    monkeypatch.setattr(xla_log.os, "execve", lambda *call: started.append(call))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    xla_log.restart_with_log("estimator_asr.train", ["--xla"])
    ((program, command, environment),) = started
    assert program == sys.executable and command[1:] == ["-m", "estimator_asr.train", "--xla"]
    assert environment["TF_CPP_MIN_LOG_LEVEL"] == "0"
    for name in ("TF_CPP_MIN_LOG_LEVEL", "TF_CPP_VMODULE"):
        monkeypatch.setenv(name, environment[name])
    xla_log.restart_with_log("estimator_asr.train", ["--xla"])
    assert len(started) == 1


@pytest.mark.parametrize("num_gpus, count", [(0, 1), (1, 0)])
def test_on_a_cpu_the_reason_against_it_is_said(monkeypatch, num_gpus, count):
    lines = []
    monkeypatch.setattr(xla_log.logging, "warning", lambda text: lines.append(text))
    xla_log.warn_on_cpu(num_gpus)
    assert len(lines) == count and all("a step took three times as long" in line for line in lines)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("xla") / "tensorflow.log"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    environment.pop("TF_CPP_VMODULE", None)
    command = [sys.executable, "-m", "compiled_steps", str(path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    return run, path


def test_once_each_shape_has_come_twice_nothing_new_is_compiled(compiled):
    # The first time that a shape comes, TensorFlow runs it without XLA.
    counts = [int(count) for count in re.findall(r"epoch \d (\d+)", compiled[0].stdout)]
    assert len(counts) == 3 and counts[1] == counts[2] >= 2


def test_python_speaks_at_the_terminal_and_tensorflow_in_the_file(compiled):
    run, path = compiled
    assert re.search(r"XLA compiled \d+ times in \d+\.\d s \(\d+ parts of the graph", run.stderr)
    assert run.stderr.endswith("python's own line\n")
    after = run.stderr[run.stderr.index("XLA compiled") :]
    assert "device_compilation_profiler" not in after and "Compiled cluster_" in path.read_text()
