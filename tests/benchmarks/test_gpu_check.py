"""The GPU check: what it says of losses, devices and child processes, and the whole program on a CPU."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys

import paths
import pytest

from benchmarks.gpu_check import __main__ as gpu_check
from benchmarks.gpu_check import data as gpu_check_data
from benchmarks.gpu_check import runs as gpu_check_runs
from benchmarks.gpu_check import trainings as gpu_check_trainings

FALLING = [10.0 - 0.1 * step for step in range(50)]
TRAININGS = {training.name: training for training in gpu_check_trainings.TRAININGS}
T4, A100, UNKNOWN = (7, 5), (8, 0), None


def changed(step, loss):
    return [*FALLING[: step - 1], loss, *FALLING[step:]]


@pytest.mark.parametrize(
    "losses, said",
    [
        (FALLING, ""),
        (changed(50, 5.1 * 1.0009), ""),
        (
            changed(50, 5.1 * 1.01),
            "losses differ from the CPU's by 1.0e-02, expected 0.001 at most, in step 50",
        ),
        (changed(2, 19.8), "losses differ from the CPU's by 1.0e+00, expected 0.001 at most, in step 2"),
        (changed(7, math.nan), "loss of step 7 is nan"),
        (changed(50, math.inf), "loss of step 50 is inf"),
        (FALLING[:49], "49 losses, expected 50"),
        ([], "0 losses, expected 50"),
        ([3.0] * 50, "loss does not fall: 3.000 in the first five steps, 3.000 in the last five"),
    ],
)
def test_losses_are_judged(losses, said):
    assert gpu_check_runs.judge(losses, FALLING, 1e-3) == said


def test_without_losses_of_the_cpu_nothing_passes():
    assert gpu_check_runs.judge(FALLING, [], 1e-3) == "no losses of the CPU to compare with"


@pytest.mark.parametrize(
    "name, capabilities, cpu_flags, need",
    [
        ("CPU", [], (), ""),
        ("two CPU replicas", [], (), ""),
        ("CPU, bfloat16", [], ("avx2",), "needs a CPU with amx_bf16 or avx512_bf16"),
        ("CPU, bfloat16", [], ("avx2", "amx_bf16"), ""),
        ("GPU", [], (), "needs a GPU"),
        ("GPU", [UNKNOWN], (), ""),
        ("GPU, XLA", [(6, 1)], (), ""),
        ("GPU, float16", [(6, 1)], (), "needs compute capability 7.0"),
        ("GPU, float16", [UNKNOWN], (), "needs compute capability 7.0"),
        ("GPU, float16", [T4], (), ""),
        ("GPU, TF32", [T4], (), "needs compute capability 8.0"),
        ("GPU, bfloat16", [T4], (), "needs compute capability 8.0"),
        ("GPU, bfloat16", [A100], (), ""),
        ("two GPUs", [A100], (), "needs two GPUs"),
        ("two GPUs", [A100, A100, A100], (), ""),
        ("two GPUs, float16", [A100, (6, 1)], (), "needs compute capability 7.0"),
    ],
)
def test_a_line_says_what_it_needs(name, capabilities, cpu_flags, need):
    assert gpu_check_trainings.find_need(TRAININGS[name], capabilities, set(cpu_flags)) == need


@pytest.mark.parametrize(
    "number, visible, chosen",
    [(0, None, ""), (0, "2,3", ""), (1, None, "0"), (2, None, "0,1"), (1, "2,3", "2"), (2, "2,3,5", "2,3")],
)
def test_the_first_visible_gpus_are_chosen(number, visible, chosen):
    assert gpu_check_runs.choose_devices(number, visible) == chosen


@pytest.mark.parametrize(
    "code, limit, problem",
    [
        ("print('fine')", 60, ""),
        ("print('begun', flush=True); import time; time.sleep(60)", 1, "no end after 1 s: begun"),
        ("import os; os.kill(os.getpid(), 11)", 60, "killed by SIGSEGV: it printed nothing"),
        ("import sys; sys.exit('error: no GPU')", 60, "exit code 1: error: no GPU"),
        ("import os; print(os.environ['TWO'], flush=True); os._exit(70)", 60, "exit code 70: 2"),
    ],
)
def test_a_child_that_hangs_or_dies_is_explained(code, limit, problem, tmp_path):
    done = gpu_check_runs.run(["-c", code], str(tmp_path / "log"), limit, {"TWO": "2"})
    assert done.problem == problem and done.seconds < 30


def test_the_largest_peak_of_memory_is_read_from_the_log():
    log = "a: 2.0 s with set-up, peak 9.70 GiB of GPU memory\nb: 0.1 s, peak 10.71 GiB of GPU memory\n"
    assert gpu_check_runs.find_peak(log) == "10.71 GiB of GPU memory"
    assert gpu_check_runs.find_peak("nothing") == ""


def test_the_table_is_markdown():
    lines = [
        gpu_check.Line("CPU", "pass", 62.8, "69.9", "0.74 GiB", "6.695, 2.716"),
        gpu_check.Line("GPU", "needs a GPU"),
    ]
    assert list(gpu_check.tabulate(lines)) == [
        "| check | result      | s  | ms per step | memory   | loss at step 1, 50 | difference from CPU |",
        "| ----- | ----------- | -- | ----------- | -------- | ------------------ | ------------------- |",
        "| CPU   | pass        | 63 | 69.9        | 0.74 GiB | 6.695, 2.716       |                     |",
        "| GPU   | needs a GPU | 0  |             |          |                    |                     |",
    ]


def test_the_language_model_can_learn_its_hanzi(tmp_path):
    """Each reading has two hanzi, and the syllable before decides."""
    gpu_check_data.write_corpus(str(tmp_path))
    first, *rows = (tmp_path / "manifest.tsv").read_text(encoding="utf-8").splitlines()
    assert first == "id\taudio\tspeaker\ttext\tpinyin\tsplit" and len(rows) == 104
    hanzi = {}
    for row in rows:
        _, audio, _, text, pinyin, _ = row.split("\t")
        syllables = pinyin.split()
        assert len(text) == len(syllables) and (tmp_path / audio).stat().st_size == 44 + 6400 * len(syllables)
        for pair in zip(["", *syllables], syllables, text):
            hanzi.setdefault(pair[:2], set()).add(pair[2])
    assert {len(each) for each in hanzi.values()} == {1}
    assert len({character for each in hanzi.values() for character in each}) == 20


def answer(monkeypatch, **runs):
    """Replaces the child processes: problem and log of devices, ctc, build, and trainings by name."""

    def run(words, log, limit, environment):
        names = [word.split(".")[-1] if "=" not in word else os.path.basename(word) for word in words]
        found = [runs[name] for name in names if name in runs]
        return gpu_check_runs.Run(1.0, *(found[0] if found else ("", "")))

    monkeypatch.setattr(gpu_check_runs, "run", run)


DEVICES = '{"gpus": [["GPU:0", [7, 5]]], "findings": [["ok", "GPU:0 T4"]], "tensorflow": "2.21.0"}'


@pytest.mark.parametrize(
    "ctc, result",
    [
        (("", '{"difference": 1e-06, "tolerance": 0.001}\ndriver says bye'), "pass"),
        (
            ("", '{"difference": 0.5, "tolerance": 0.001}'),
            "FAIL: differs by 5.0e-01, expected 0.001 at most; ",
        ),
        (
            ("", '{"difference": Infinity, "tolerance": 0.001}'),
            "FAIL: differs by inf, expected 0.001 at most; ",
        ),
        (("killed by SIGABRT: cuDNN", "cuDNN"), "FAIL: killed by SIGABRT: cuDNN; the classic kernel is used"),
    ],
)
def test_the_ctc_kernel_of_a_gpu_is_judged(ctc, result, monkeypatch, tmp_path):
    answer(monkeypatch, devices=("", DEVICES), ctc=ctc, build=("exit code 1: full", "full"))
    devices, kernel, data = gpu_check.Checks(str(tmp_path), 60).run()
    assert devices.result == "pass" and devices.details == ["TensorFlow 2.21.0", "GPU:0 T4"]
    assert kernel.result.startswith(result)
    assert (data.result, data.details) == ("FAIL: exit code 1: full", ["full"])


def test_a_gpu_that_tensorflow_does_not_see_fails(monkeypatch, tmp_path):
    findings = '[["ok", "CUDA 12.5"], ["problem", "TensorFlow does not see the T4"]]'
    text = f'{{"gpus": [], "findings": {findings}, "tensorflow": "2.21.0"}}'
    answer(monkeypatch, devices=("", text))
    assert next(gpu_check.Checks(str(tmp_path), 60).run()).result == "FAIL: TensorFlow does not see the T4"


def test_each_training_is_compared_with_the_cpu(monkeypatch, tmp_path):
    answer(monkeypatch, **{"m, GPU": ("no end after 60 s: begun", "step 1\nbegun")})
    other = [1.01 * loss for loss in FALLING]
    losses = {"CPU": FALLING, "two CPU replicas": other, "GPU": [], "GPU, float16": other}
    read = {f"m, {name}": gpu_check_runs.Steps(values, 7.0) for name, values in losses.items()}
    monkeypatch.setattr(gpu_check_runs, "read_steps", lambda path: read[os.path.basename(path)])
    checks = gpu_check.Checks(str(tmp_path), 60)
    checks.capabilities = [T4]
    found = list(checks.train("m", [TRAININGS[name] for name in (*losses, "two GPUs")]))
    assert [line.result for line in found] == [
        "pass",
        "FAIL: losses differ from the CPU's by 1.0e-02, expected 0.0001 at most, in step 1",
        "FAIL: no end after 60 s: begun",
        "pass",
        "needs two GPUs",
    ]
    assert found[0][3:7] == ("7.0", "", "10.000, 5.100", "") and found[3].difference == "1.0e-02"
    assert found[2].details == ["step 1", "begun"]


def test_when_the_cpu_fails_nothing_is_compared(monkeypatch, tmp_path):
    answer(monkeypatch)
    monkeypatch.setattr(gpu_check_runs, "read_steps", lambda path: gpu_check_runs.Steps([math.nan] * 50, 7.0))
    checks = gpu_check.Checks(str(tmp_path), 60)
    found = [line.result for line in checks.train("m", [TRAININGS["CPU"], TRAININGS["two CPU replicas"]])]
    assert found == ["FAIL: loss of step 1 is nan", "FAIL: loss of step 1 is nan"]
    read = iter([[math.nan] * 50, FALLING])
    monkeypatch.setattr(gpu_check_runs, "read_steps", lambda path: gpu_check_runs.Steps(next(read), 7.0))
    found = [line.result for line in checks.train("m", [TRAININGS["CPU"], TRAININGS["two CPU replicas"]])]
    assert found[1] == "FAIL: no losses of the CPU to compare with"


def check(*flags):
    command = [sys.executable, "-m", "benchmarks.gpu_check", *flags]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.long
def test_children_that_hang_fail_the_check():
    done = check("--limit_seconds=0.01")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "    0 s  devices: FAIL: no end after 0.01 s: it printed nothing",
        "    0 s  CTC by cuDNN: needs a GPU",
        "    0 s  data: FAIL: no end after 0.01 s: it printed nothing",
    ]
    assert re.fullmatch(r"0 passed, 2 failed, 1 need what this machine lacks; \d+ s", lines[-1])


@pytest.mark.slow
def test_a_ctc_kernel_that_fails_is_explained(tmp_path):
    words = ["-m", "benchmarks.gpu_check.facts", "ctc"]
    done = gpu_check_runs.run(words, str(tmp_path / "log"), 120, {"CUDA_VISIBLE_DEVICES": ""})
    problem = "exit code 1: InvalidArgumentError: No OpKernel was registered to support Op 'CTCLossV2'"
    assert done.problem.startswith(problem)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_whole_check_passes_on_a_cpu():
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    results = {name: result for name, result, *_ in rows}
    assert len(rows) == 3 + 2 * len(gpu_check_trainings.TRAININGS)
    assert (results["devices"], results["data"], results["CTC by cuDNN"]) == ("pass", "pass", "needs a GPU")
    for model in ("acoustic", "language"):
        assert results[f"{model}, CPU"] == results[f"{model}, two CPU replicas"] == "pass"
        assert results[f"{model}, CPU, bfloat16"] in ("pass", "needs a CPU with amx_bf16 or avx512_bf16")
        assert results[f"{model}, GPU"] == results[f"{model}, GPU, XLA"] == "needs a GPU"
        assert results[f"{model}, two GPUs"] == "needs two GPUs"
    assert sum(bool(row[3] and row[4] and row[5]) for row in rows) >= 4  # step time, memory, losses
