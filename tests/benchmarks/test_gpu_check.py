"""Tests the GPU check: its verdicts on losses, devices and child processes, and what it runs again."""

import math
import os

import pytest

from benchmarks.gpu_check import checks, measured_train, runs, trainings
from benchmarks.gpu_check import data as gpu_check_data
from benchmarks.gpu_check import lines as lines_lib
from estimator_asr.experiment import training_config
from tfrecord_builder import errors

FALLING = [10.0 - 0.1 * step for step in range(50)]
TRAININGS = {training.name: training for training in trainings.TRAININGS}
T4, A100, UNKNOWN = (7, 5), (8, 0), None
NO_FIRST = "no losses of the first line to compare with"


def changed(step, loss):
    return [*FALLING[: step - 1], loss, *FALLING[step:]]


@pytest.mark.parametrize(
    ("losses", "first", "said"),
    [
        (FALLING, FALLING, ""),
        (changed(50, 5.1 * 1.0009), FALLING, ""),
        (
            changed(2, 19.8),
            FALLING,
            "losses differ from the first line's by 1.0e+00, expected 0.001 at most, in step 2",
        ),
        (changed(7, math.nan), FALLING, "loss of step 7 is nan"),
        (FALLING[:49], FALLING, "49 losses, expected 50"),
        ([], FALLING, "0 losses, expected 50"),
        ([3.0] * 50, FALLING, "loss does not fall: 3.000 in the first five steps, 3.000 in the last five"),
        (FALLING, [], NO_FIRST),
        (FALLING, [math.nan] * 50, NO_FIRST),
    ],
)
def test_losses_are_judged(losses, first, said):
    assert runs.judge(losses, first, 1e-3, 50) == said


@pytest.mark.parametrize(
    ("name", "capabilities", "cpu_flags", "need"),
    [
        ("CPU", [], (), ""),
        ("CPU, bfloat16", [], ("avx2",), "needs a CPU with amx_bf16 or avx512_bf16"),
        ("CPU, bfloat16", [], ("avx2", "amx_bf16"), ""),
        ("GPU", [], (), "needs a GPU"),
        ("GPU", [UNKNOWN], (), ""),
        ("GPU, float16", [UNKNOWN], (), "needs compute capability 7.0"),
        ("GPU, float16", [T4], (), ""),
        ("GPU, TF32", [T4], (), "needs compute capability 8.0"),
        ("two GPUs", [A100], (), "needs two GPUs"),
        ("two GPUs, float16", [A100, (6, 1)], (), "needs compute capability 7.0"),
    ],
)
def test_a_line_says_what_it_needs(name, capabilities, cpu_flags, need):
    assert trainings.find_need(TRAININGS[name], capabilities, set(cpu_flags)) == need


@pytest.mark.parametrize(
    ("number", "visible", "chosen"), [(0, "2,3", ""), (2, None, "0,1"), (2, "2,3,5", "2,3")]
)
def test_the_first_visible_gpus_are_chosen(number, visible, chosen):
    assert runs.choose_devices(number, visible) == chosen


@pytest.mark.parametrize(
    ("code", "limit", "problem"),
    [
        ("print('fine')", 60, ""),
        ("print('begun', flush=True); import time; time.sleep(60)", 1, "cut off after 1 s: begun"),
        ("import os; os.kill(os.getpid(), 11)", 60, "killed by SIGSEGV: it printed nothing"),
        ("import os; print(os.environ['TWO'], flush=True); os._exit(70)", 60, "exit code 70: 2"),
    ],
)
def test_a_child_that_hangs_or_dies_is_explained(code, limit, problem, tmp_path):
    done = runs.run(["-c", code], str(tmp_path / "log"), limit, {"TWO": "2"})
    assert (done.problem, done.was_cut_off) == (problem, problem.startswith("cut off"))


def test_the_language_model_can_learn_its_hanzi(tmp_path):
    """Each syllable can stand for two hanzi; the previous syllable determines which one."""
    gpu_check_data.write_corpus(str(tmp_path), gpu_check_data.CORPORA["data"])
    hanzi = {}
    for row in (tmp_path / "manifest.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        *_, text, pinyin, _ = row.split("\t")
        for pair in zip(["", *pinyin.split()], pinyin.split(), text):
            hanzi.setdefault(pair[:2], set()).add(pair[2])
    assert {len(each) for each in hanzi.values()} == {1} and len(set.union(*hanzi.values())) == 20


DEVICES = '{"gpus": [["GPU:0", [7, 5]]], "findings": [["ok", "GPU:0 T4"]], "tensorflow": "2.21.0"}'
UNSEEN = '{"gpus": [], "findings": [["problem", "TensorFlow does not see the T4"]], "tensorflow": "2.21.0"}'
PEAK = '{"bytes": 1073741824, "kind": "GPU memory"}'


class Machine:
    """Replaces the child processes; `answers` maps the name of each process to its problem and log."""

    def __init__(self, monkeypatch, losses=None, **answers):
        self.answers, self.asked = {"facts": ("", DEVICES), **answers}, []
        read = {f"m, {name}": runs.Steps(values, 7.0) for name, values in (losses or {}).items()}
        monkeypatch.setattr(runs, "run", self.run)
        monkeypatch.setattr(runs, "read_steps", lambda path: read[os.path.basename(path)])

    def run(self, words, log, limit, environment):
        names = [word.split(".")[-1] if "=" not in word else os.path.basename(word) for word in words]
        found = [name for name in names if name in self.answers]
        self.asked += found or [names[-1]]
        problem, text = self.answers[found[0]] if found else ("", PEAK)
        return runs.Run(1.0, problem, text, problem.startswith("cut off"))


def make_checks(tmp_path, limit=60):
    return checks.Checks(lines_lib.Passed(str(tmp_path / "work")), limit, 1)


def train(tmp_path, *names):
    """Checks devices and data, then trains; returns the result lines of the trainings."""
    made = make_checks(tmp_path)
    lines = made.run()
    assert [next(lines).result, next(lines).result] == ["pass", "pass"]
    return list(made.train(trainings.Group("m", "data", 50, (), [TRAININGS[name] for name in names])))


@pytest.mark.parametrize(
    ("answers", "results"),
    [
        ({"build": ("exit code 1: full", "full")}, ["pass", "FAIL: exit code 1: full"]),
        ({"facts": ("killed by SIGSEGV: begun", "")}, ["FAIL: killed by SIGSEGV: begun"]),
        (
            {"facts": ("", UNSEEN), "build": ("cut off after 9 s: x", "x")},
            ["FAIL: TensorFlow does not see the T4", "not run: cut off after 9 s: x"],
        ),
    ],
)
def test_without_devices_or_data_nothing_is_trained(monkeypatch, tmp_path, answers, results):
    Machine(monkeypatch, **answers)
    assert [line.result for line in make_checks(tmp_path).run()] == results


@pytest.mark.long
def test_each_training_is_compared_with_the_first(monkeypatch, tmp_path):
    other = [1.01 * loss for loss in FALLING]
    losses = {"CPU": FALLING, "two CPU replicas": other, "GPU": [], "GPU, float16": other}
    Machine(monkeypatch, losses, **{"m, GPU": ("killed by SIGSEGV: begun", "step 1\nbegun")})
    found = train(tmp_path, *losses, "two GPUs")
    assert [line.result for line in found] == [
        "pass",
        "FAIL: losses differ from the first line's by 1.0e-02, expected 0.0001 at most, in step 1",
        "FAIL: killed by SIGSEGV: begun",
        "pass",
        "needs two GPUs",
    ]
    assert found[0][3:7] == ("7.0", "1.00 GiB of GPU memory", "10.000, 5.100", "")
    assert found[3].difference == "1.0e-02" and found[2].details == ["step 1", "begun"]
    assert list(lines_lib.tabulate(found[:1]))[2] == (
        "| m, CPU | pass   | 1 | 7.0         | 1.00 GiB of GPU memory | 10.000, 5.100       |            |"
    )


@pytest.mark.long
def test_a_check_that_was_cut_off_goes_on_with_what_has_not_passed(monkeypatch, tmp_path):
    names, cut = ("CPU", "two CPU replicas"), {"m, two CPU replicas": ("cut off after 9 s: begun", "begun")}
    machine = Machine(monkeypatch, dict.fromkeys(names, FALLING), **cut)
    assert [line.result for line in train(tmp_path, *names)] == ["pass", "not run: cut off after 9 s: begun"]
    partial = tmp_path / "work" / "m, two CPU replicas"
    partial.mkdir()
    machine.answers.pop("m, two CPU replicas")
    machine.asked.clear()
    assert [line.result for line in train(tmp_path, *names)] == ["pass", "pass"]
    assert machine.asked == ["facts", "m, two CPU replicas"] and not partial.exists()
    machine.answers["facts"] = ("", DEVICES.replace("2.21.0", "2.15.1"))  # makes earlier results invalid
    machine.asked.clear()
    train(tmp_path, "CPU")
    assert machine.asked == ["facts", "data", "long_data", "m, CPU"]


def test_nothing_runs_after_the_time_limit(monkeypatch, tmp_path):
    Machine(monkeypatch)
    assert [line.result for line in make_checks(tmp_path, limit=0.0).run()] == ["not run: the limit is over"]


def test_a_work_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(errors.UserError, match="contains files of something else; pass a new or empty"):
        lines_lib.Passed(str(tmp_path))


def test_the_parts_of_a_gpu_are_in_the_settings_of_the_session(monkeypatch):
    made, strategies = [], measured_train.strategies
    config_lib = measured_train.tf.config
    monkeypatch.setattr(config_lib, "list_physical_devices", lambda kind: ["the GPU"])
    monkeypatch.setattr(config_lib, "set_logical_device_configuration", lambda *args: made.append(args))
    for name in ("build_strategy", "session_config"):  # restores what `split` replaces
        monkeypatch.setattr(strategies, name, getattr(strategies, name))
    measured_train.split(2)
    ((gpu, parts),) = made
    assert gpu == "the GPU" and [part.memory_limit for part in parts] == [3072, 3072]
    session = strategies.session_config(training_config.TrainConfig())
    (devices,) = session.gpu_options.experimental.virtual_devices
    assert list(devices.memory_limit_mb) == [3072, 3072] and not session.experimental.collective_nccl
