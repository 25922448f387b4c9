"""The GPU check: what it says of losses, devices and child processes, and the whole program on a CPU."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import paths
import pytest
import soundfile

from benchmarks.gpu_check import checks, split_gpu
from benchmarks.gpu_check import data as gpu_check_data
from benchmarks.gpu_check import lines as lines_lib
from benchmarks.gpu_check import runs as gpu_check_runs
from benchmarks.gpu_check import trainings as gpu_check_trainings
from estimator_asr.experiment import training_config

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
            "losses differ from the first line's by 1.0e-02, expected 0.001 at most, in step 50",
        ),
        (
            changed(2, 19.8),
            "losses differ from the first line's by 1.0e+00, expected 0.001 at most, in step 2",
        ),
        (changed(7, math.nan), "loss of step 7 is nan"),
        (changed(50, math.inf), "loss of step 50 is inf"),
        (FALLING[:49], "49 losses, expected 50"),
        ([], "0 losses, expected 50"),
        ([3.0] * 50, "loss does not fall: 3.000 in the first five steps, 3.000 in the last five"),
    ],
)
def test_losses_are_judged(losses, said):
    assert gpu_check_runs.judge(losses, FALLING, 1e-3, 50) == said


def test_without_losses_of_the_first_line_nothing_passes():
    said = "no losses of the first line to compare with"
    assert gpu_check_runs.judge(FALLING, [], 1e-3, 50) == said
    assert gpu_check_runs.judge(FALLING, [math.nan] * 50, 1e-3, 50) == said


def test_only_the_first_50_steps_are_compared():
    losses = [*FALLING, *[5.0] * 150]
    assert gpu_check_runs.judge(losses, [*FALLING, *[4.0] * 150], 1e-3, 200) == ""
    assert gpu_check_runs.judge(FALLING, FALLING, 1e-3, 200) == "50 losses, expected 200"


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
        ("print('begun', flush=True); import time; time.sleep(60)", 1, "cut off after 1 s: begun"),
        ("import os; os.kill(os.getpid(), 11)", 60, "killed by SIGSEGV: it printed nothing"),
        ("import sys; sys.exit('error: no GPU')", 60, "exit code 1: error: no GPU"),
        ("import os; print(os.environ['TWO'], flush=True); os._exit(70)", 60, "exit code 70: 2"),
    ],
)
def test_a_child_that_hangs_or_dies_is_explained(code, limit, problem, tmp_path):
    done = gpu_check_runs.run(["-c", code], str(tmp_path / "log"), limit, {"TWO": "2"})
    assert done.problem == problem and done.seconds < 30
    assert done.was_cut_off == problem.startswith("cut off")


def test_an_event_file_that_a_kill_has_cut_is_read_up_to_there(tmp_path):
    import tensorflow as tf

    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(tmp_path))
        for step in range(1, 4):
            value = tf.compat.v1.Summary.Value(tag="loss", simple_value=10.0 - step)
            writer.add_summary(tf.compat.v1.Summary(value=[value]), step)
        writer.close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert gpu_check_runs.read_steps(str(tmp_path)).losses == [9.0, 8.0]


def test_the_largest_peak_of_memory_is_read_from_the_log():
    log = "a: 2.0 s with set-up, peak 9.70 GiB of GPU memory\nb: 0.1 s, peak 10.71 GiB of GPU memory\n"
    assert gpu_check_runs.find_peak(log) == "10.71 GiB of GPU memory"
    assert gpu_check_runs.find_peak("nothing") == ""


def test_the_table_is_markdown():
    lines = [
        lines_lib.Line("CPU", "pass", 62.8, "69.9", "0.74 GiB", "6.695, 2.716"),
        lines_lib.Line("GPU", "needs a GPU"),
    ]
    assert list(lines_lib.tabulate(lines)) == [
        "| check | result      | s  | ms per step | memory   | first and last loss | difference |",
        "| ----- | ----------- | -- | ----------- | -------- | ------------------- | ---------- |",
        "| CPU   | pass        | 63 | 69.9        | 0.74 GiB | 6.695, 2.716        |            |",
        "| GPU   | needs a GPU | 0  |             |          |                     |            |",
    ]


def test_the_language_model_can_learn_its_hanzi(tmp_path):
    """Each reading has two hanzi, and the syllable before decides."""
    gpu_check_data.write_corpus(str(tmp_path), gpu_check_data.CORPORA["data"])
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


def test_the_long_corpus_is_a_batch_of_noise_of_400_seconds(tmp_path):
    gpu_check_data.write_corpus(str(tmp_path), gpu_check_data.CORPORA["long_data"])
    sizes = [path.stat().st_size for path in tmp_path.glob("train*.wav")]
    assert len(sizes) == 87 and set(sizes) == {44 + 2 * 73600}  # 4.6 s
    samples, _ = soundfile.read(tmp_path / "train00.wav")
    correlation = np.corrcoef(samples[:-1], samples[1:])[0, 1]
    assert abs(correlation) < 0.02 and 0.29 < np.abs(samples).max() < 0.31


DEVICES = '{"gpus": [["GPU:0", [7, 5]]], "findings": [["ok", "GPU:0 T4"]], "tensorflow": "2.21.0"}'


class Machine:
    """Answers for the child processes: problem and log of facts, build, and trainings by name."""

    def __init__(self, monkeypatch, **answers):
        self.answers, self.asked = {"facts": ("", DEVICES), **answers}, []
        monkeypatch.setattr(gpu_check_runs, "run", self.run)

    def run(self, words, log, limit, environment):
        names = [word.split(".")[-1] if "=" not in word else os.path.basename(word) for word in words]
        found = [name for name in names if name in self.answers]
        self.asked += found or [names[-1]]
        problem, text = self.answers[found[0]] if found else ("", "")
        return gpu_check_runs.Run(1.0, problem, text, problem.startswith("cut off"))


def make_checks(tmp_path, limit=60):
    return checks.Checks(lines_lib.Passed(str(tmp_path / "work")), limit, 1)


def begin(tmp_path):
    """Checks whose devices and data are known."""
    made = make_checks(tmp_path)
    lines = made.run()
    assert [next(lines).result, next(lines).result] == ["pass", "pass"]
    return made


def train(made, *names, group="m"):
    trainings = [TRAININGS[name] for name in names]
    return list(made.train(gpu_check_trainings.Group(group, "data", 50, (), trainings)))


def test_without_data_nothing_is_trained(monkeypatch, tmp_path):
    Machine(monkeypatch, build=("exit code 1: full", "full"))
    devices, data = make_checks(tmp_path).run()
    assert devices.result == "pass" and devices.details == ["TensorFlow 2.21.0", "GPU:0 T4"]
    assert (data.result, data.details) == ("FAIL: exit code 1: full", ["full"])


def test_where_the_devices_are_not_found_nothing_is_forgotten(monkeypatch, tmp_path):
    machine = Machine(monkeypatch)
    assert [line.name for line in make_checks(tmp_path).run()][:2] == ["devices", "data"]
    machine.answers["facts"] = ("killed by SIGSEGV: it printed nothing", "")
    (line,) = make_checks(tmp_path).run()
    assert line.result == "FAIL: killed by SIGSEGV: it printed nothing"
    machine.answers["facts"] = ("", DEVICES)
    machine.asked.clear()
    assert list(make_checks(tmp_path).run())[1].result == "pass" and "data" not in machine.asked


def test_a_gpu_that_tensorflow_does_not_see_fails(monkeypatch, tmp_path):
    findings = '[["ok", "CUDA 12.5"], ["problem", "TensorFlow does not see the T4"]]'
    text = f'{{"gpus": [], "findings": {findings}, "tensorflow": "2.21.0"}}'
    Machine(monkeypatch, facts=("", text))
    assert next(make_checks(tmp_path).run()).result == "FAIL: TensorFlow does not see the T4"


def read_steps(monkeypatch, losses):
    read = {f"m, {name}": gpu_check_runs.Steps(values, 7.0) for name, values in losses.items()}
    monkeypatch.setattr(gpu_check_runs, "read_steps", lambda path: read[os.path.basename(path)])


def test_each_training_is_compared_with_the_first(monkeypatch, tmp_path):
    Machine(monkeypatch, **{"m, GPU": ("killed by SIGSEGV: begun", "step 1\nbegun")})
    other = [1.01 * loss for loss in FALLING]
    losses = {"CPU": FALLING, "two CPU replicas": other, "GPU": [], "GPU, float16": other}
    read_steps(monkeypatch, losses)
    made = begin(tmp_path)
    made.capabilities = [T4]
    found = train(made, *losses, "two GPUs")
    assert [line.result for line in found] == [
        "pass",
        "FAIL: losses differ from the first line's by 1.0e-02, expected 0.0001 at most, in step 1",
        "FAIL: killed by SIGSEGV: begun",
        "pass",
        "needs two GPUs",
    ]
    assert found[0][3:7] == ("7.0", "", "10.000, 5.100", "") and found[3].difference == "1.0e-02"
    assert found[2].details == ["step 1", "begun"]


def test_small_trainings_run_side_by_side_and_their_lines_keep_their_order(monkeypatch, tmp_path):
    read_steps(monkeypatch, dict.fromkeys(("CPU", "two CPU replicas"), FALLING))
    Machine(monkeypatch)
    made, barrier, ended = begin(tmp_path), threading.Barrier(2, timeout=10), []

    def run(words, log, limit, environment):
        barrier.wait()  # until the other one has started too
        if log.endswith("CPU.log"):
            while not ended:
                time.sleep(0.01)
        ended.append(os.path.basename(log))
        return gpu_check_runs.Run(1.0, "", "")

    monkeypatch.setattr(gpu_check_runs, "run", run)
    monkeypatch.setattr(checks.cpu, "count_cores", lambda: 4)
    trainings = [TRAININGS["CPU"], TRAININGS["two CPU replicas"]]
    group = gpu_check_trainings.Group("m", "data", 50, (), trainings, side_by_side=True)
    assert [(line.name, line.result) for line in made.train(group)] == [
        ("m, CPU", "pass"),
        ("m, two CPU replicas", "pass"),
    ]
    assert ended == ["m, two CPU replicas.log", "m, CPU.log"]


def test_when_the_first_fails_nothing_is_compared(monkeypatch, tmp_path):
    Machine(monkeypatch)
    read_steps(monkeypatch, {"CPU": [math.nan] * 50, "two CPU replicas": [math.nan] * 50})
    found = [line.result for line in train(begin(tmp_path), "CPU", "two CPU replicas")]
    assert found == ["FAIL: loss of step 1 is nan", "FAIL: loss of step 1 is nan"]
    read_steps(monkeypatch, {"CPU": [math.nan] * 50, "two CPU replicas": FALLING})
    found = [line.result for line in train(begin(tmp_path), "CPU", "two CPU replicas")]
    assert found[1] == "FAIL: no losses of the first line to compare with"


def test_a_check_that_was_cut_off_goes_on_with_what_has_not_passed(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, **{"m, two CPU replicas": ("killed by SIGTERM: begun", "begun")})
    read_steps(monkeypatch, {"CPU": FALLING, "two CPU replicas": FALLING})
    first = begin(tmp_path)
    assert [line.result for line in train(first, "CPU")] == ["pass"]
    assert train(first, "CPU", "two CPU replicas")[1].result.startswith("FAIL: killed by SIGTERM")
    partial = tmp_path / "work" / "m, two CPU replicas"
    partial.mkdir()
    machine.answers.pop("m, two CPU replicas")
    machine.asked.clear()
    second = begin(tmp_path)
    found = train(second, "CPU", "two CPU replicas")
    assert machine.asked == ["facts", "m, two CPU replicas"] and not partial.exists()
    assert [line.result for line in found] == ["pass", "pass"] and found[0].losses == "10.000, 5.100"


def test_lines_of_another_tensorflow_are_forgotten(monkeypatch, tmp_path):
    machine = Machine(monkeypatch)
    read_steps(monkeypatch, {"CPU": FALLING})
    first = begin(tmp_path)
    train(first, "CPU")
    machine.answers["facts"] = ("", DEVICES.replace("2.21.0", "2.15.1"))
    machine.asked.clear()
    second = begin(tmp_path)
    train(second, "CPU")
    assert machine.asked == ["facts", "data", "long_data", "m, CPU"]


def test_a_training_that_the_limit_cuts_off_has_not_failed(monkeypatch, tmp_path):
    Machine(monkeypatch, **{"m, CPU": ("cut off after 9 s: step 3", "step 3")})
    read_steps(monkeypatch, {"CPU": FALLING[:3]})
    (line,) = train(begin(tmp_path), "CPU")
    assert (line.result, line.details) == ("not run: cut off after 9 s: step 3", ["step 3"])


def test_what_the_limit_leaves_no_time_for_does_not_run(monkeypatch, tmp_path):
    machine = Machine(monkeypatch)
    made = make_checks(tmp_path, limit=0.0)
    made.passed.read("some machine")
    found = train(made, "CPU", "GPU")
    assert [line.result for line in found] == [
        "not run: the limit is over",
        "needs a GPU",
    ] and not machine.asked


def test_a_work_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").touch()
    done = check(f"--work_dir={tmp_path}")
    assert done.returncode == 1 and done.stderr == (
        f"error: --work_dir: {tmp_path} has files of something else; name a directory that is new or empty\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_parts_of_a_gpu_stand_in_the_settings_of_the_session(monkeypatch):
    config_lib = split_gpu.tf.config
    made = []
    monkeypatch.setattr(config_lib, "list_physical_devices", lambda kind: ["the GPU"])
    monkeypatch.setattr(config_lib, "set_logical_device_configuration", lambda *args: made.append(args))
    for name in ("build_strategy", "session_config"):  # which split replaces
        monkeypatch.setattr(split_gpu.strategies, name, getattr(split_gpu.strategies, name))
    split_gpu.split(2)
    ((gpu, parts),) = made
    assert gpu == "the GPU" and [part.memory_limit for part in parts] == [3072, 3072]
    session = split_gpu.strategies.session_config(training_config.TrainConfig())
    (devices,) = session.gpu_options.experimental.virtual_devices
    assert list(devices.memory_limit_mb) == [3072, 3072] and not session.experimental.collective_nccl
    monkeypatch.setattr(split_gpu.strategies, "mirror", list)
    assert split_gpu.strategies.build_strategy(None, None) == ["/gpu:0", "/gpu:1"]


def check(*flags):
    command = [sys.executable, "-m", "benchmarks.gpu_check", *flags]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.long
def test_children_that_hang_fail_the_check(tmp_path):
    done = check("--limit_seconds=0.01", f"--work_dir={tmp_path}/work")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "    0 s  devices: not run: cut off after 0.01 s: it printed nothing",
        "",
    ]
    assert re.fullmatch(
        r"0 passed, 0 failed, 1 did not run, 0 need what this machine lacks; \d+ s", lines[-2]
    )
    path = tmp_path / "work"
    assert lines[-1] == f"the same command runs again what has not passed; to start over, delete {path}"
    assert path.is_dir()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_whole_check_passes_on_a_cpu(tmp_path):
    first = check(f"--work_dir={tmp_path}/work", "--limit_seconds=45")
    assert first.returncode == 1 and "not run: the limit is over\n" in first.stdout
    done = check(f"--work_dir={tmp_path}/work", "--limit_seconds=1000")
    assert set(re.findall(r".* pass\n", first.stdout)[1:]) <= set(re.findall(r".* pass\n", done.stdout))
    assert not os.listdir(tmp_path / "work")
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    results = {name: result for name, result, *_ in rows}
    assert len(rows) == 2 + sum(len(group.trainings) for group in gpu_check_trainings.list_groups(1))
    assert results["devices"] == results["data"] == "pass"
    assert results["flags/aishell1, GPU"] == "needs a GPU"
    for model in ("acoustic", "language"):
        assert results[f"{model}, CPU"] == results[f"{model}, two CPU replicas"] == "pass"
        assert results[f"{model}, CPU, bfloat16"] in ("pass", "needs a CPU with amx_bf16 or avx512_bf16")
        assert results[f"{model}, GPU"] == results[f"{model}, GPU, XLA"] == "needs a GPU"
        assert results[f"{model}, two GPUs"] == "needs two GPUs"
    assert sum(bool(row[3] and row[4] and row[5]) for row in rows) >= 4  # step time, memory, losses
