"""The scripts of examples/ train on clusters that each test starts, as one process would."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent import futures

import clusters
import numpy as np
import paths
import programs
import pytest
import small_checkpoints
import small_records
import tiny_flags

TRAIN = [
    *("--model=language", "--warmup_epochs=0", "--nowatchdog", "--train_steps=6", "--num_buckets=3"),
    *(*tiny_flags.LANGUAGE, "--ngram_dropout=0", "--language_dropout=0"),
    *("--batch_tokens=12", "--notry_worst_batch"),
]


def run_script(name, cluster, flags):
    script, environment = str(paths.ROOT / "examples" / name / "train.py"), {**os.environ}
    command = [sys.executable, script, "2", "0"]  # without GPUs
    if name == "spark":
        submit = pathlib.Path(importlib.util.find_spec("pyspark").origin).parent / "bin" / "spark-submit"
        command = [str(submit), f"--master={cluster.runner}", script, "2"]
    environment |= {**clusters.ENVIRONMENT, "RAY_ADDRESS": cluster.runner}
    return subprocess.run([*command, *flags], env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["spark", "ray"])
def test_two_workers_of_a_cluster_train_one_model(name, tmp_path):
    small_records.make_data(str(tmp_path / "data"), splits=[("train", 24), ("dev", 3)], with_audio=False)
    with clusters.start(name, tmp_path) as cluster:
        cluster.start_worker()
        cluster.start_worker()
        flags = [*TRAIN, f"--data_dir={tmp_path}/data", f"--model_dir={tmp_path}/model"]
        done = run_script(name, cluster, flags)
    assert done.returncode == 0, done.stdout + done.stderr
    alone = programs.run("estimator_asr.train", *flags[:-1], f"--model_dir={tmp_path}/alone")
    assert alone.returncode == 0, alone.stderr
    weights, expected = (
        small_checkpoints.read_weights(tmp_path / "model"),
        small_checkpoints.read_weights(tmp_path / "alone"),
    )
    assert weights["global_step"] == 6 and set(weights) == set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(weights[key], value, atol=1e-5, err_msg=key)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["spark", "ray"])
def test_after_the_death_of_a_trainer_the_same_command_continues(name, tmp_path):
    small_records.make_data(str(tmp_path / "data"), splits=[("train", 24), ("dev", 3)], with_audio=False)
    flags = [*TRAIN, "--train_steps=600", "--save_checkpoints_steps=20"]
    flags += [f"--data_dir={tmp_path}/data", f"--model_dir={tmp_path}/model"]
    with clusters.start(name, tmp_path) as cluster, futures.ThreadPoolExecutor() as pool:
        cluster.start_worker()
        cluster.start_worker()
        started = pool.submit(run_script, name, cluster, flags)
        while not list(tmp_path.glob("model/model.ckpt-[2-9]*.index")):
            assert not started.done(), started.result()
            time.sleep(0.1)
        find = ["pgrep", "-f", f"estimator_asr.train .*--model_dir={tmp_path}/model"]
        first, second = subprocess.run(find, capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(second), signal.SIGKILL)
        assert started.result().returncode != 0
        done = run_script(name, cluster, flags)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "continues from step" in done.stdout + done.stderr + read_logs(tmp_path)
    assert small_checkpoints.read_weights(tmp_path / "model")["global_step"] == 600


def read_logs(directory):
    return "".join(path.read_text(errors="replace") for path in directory.rglob("std*") if path.is_file())
