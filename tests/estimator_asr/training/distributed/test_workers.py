"""The program on two workers and an evaluator, real processes on this machine; one of them is killed."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import paths
import pytest
import small_records
import tensorflow as tf

ROOT = paths.ROOT
TIMEOUT_SECONDS = 240
TRAIN = [
    *(sys.executable, "-m", "estimator_asr.train", "--model=language", "--warmup_epochs=0", "--nowatchdog"),
    *("--language_layers=1", "--language_units=16", "--language_inner_units=16", "--language_heads=2"),
    *("--ngram_rows=31", "--ngram_units=4", "--ngram_dropout=0", "--language_dropout=0"),
    *("--batch_tokens=12", "--num_buckets=3", "--show_utterances=0", "--notry_worst_batch"),
    "--eval_throttle_seconds=600",  # the last checkpoint alone is evaluated
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("workers") / "data")
    small_records.make_data(path, splits=[("train", 24), ("dev", 3)], with_audio=False)
    return path


def start(data, model_dir, *flags):
    command = [*TRAIN, f"--data_dir={data}", f"--model_dir={model_dir}", *flags]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def finish(process):
    try:
        return process.communicate(timeout=TIMEOUT_SECONDS)[1]
    finally:
        process.kill()


def wait_for(path, process):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.stderr.read()
        time.sleep(0.02)


def read_weights(model_dir):
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def list_children(process):
    """Process ids by what the launcher started first: chief, worker-1, evaluator."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


def test_a_worker_is_killed_and_training_ends_with_the_weights_of_one_process(data, tmp_path):
    steps = ("--train_steps=60", "--save_checkpoints_steps=20")
    process = start(data, tmp_path / "two", *steps, "--num_local_workers=2")
    wait_for(tmp_path / "two" / "model.ckpt-20.index", process)
    os.kill(list_children(process)[1], signal.SIGKILL)
    without_dev = str(tmp_path / "data")  # to evaluate takes longer than to train
    small_records.make_data(without_dev, splits=[("train", 24)], with_audio=False)
    alone = start(without_dev, tmp_path / "one", *steps)
    said = finish(process)
    assert process.returncode == 0, said
    assert "worker-1 was ended by SIGKILL; all start again from the last checkpoint" in said
    assert "evaluator: " in said and "dev at step 60: " in said
    assert len(list((tmp_path / "two" / "export" / "final").iterdir())) == 1
    assert alone.wait(TIMEOUT_SECONDS) == 0
    one, two = read_weights(tmp_path / "one"), read_weights(tmp_path / "two")
    assert one["global_step"] == two["global_step"] == 60 and set(one) == set(two)
    for name in one:
        np.testing.assert_allclose(two[name], one[name], atol=1e-5, err_msg=name)


def test_sigterm_ends_all_workers_after_the_same_step_and_saves(data, tmp_path):
    process = start(data, tmp_path / "model", "--train_steps=100000", "--num_local_workers=2")
    wait_for(tmp_path / "model" / "model.ckpt-0.index", process)
    children = list_children(process)
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    said = finish(process)
    assert process.returncode == 143, said
    assert int(tf.train.load_variable(str(tmp_path / "model"), "global_step")) > 0
    assert "SIGTERM: a checkpoint is saved" in (tmp_path / "model" / "worker-1.log").read_text()
    assert not any(pathlib.Path(f"/proc/{child}").exists() for child in children)
