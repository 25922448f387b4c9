"""The scripts in examples/ train on a cluster, with the same result as a single process."""

import contextlib
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
    script = str(paths.ROOT / "examples" / name / "train.py")
    command = [sys.executable, script, "2", "0"]  # two workers without GPUs
    if name == "spark":
        submit = pathlib.Path(importlib.util.find_spec("pyspark").origin).parent / "bin" / "spark-submit"
        command = [str(submit), f"--master={cluster.runner}", script, "2"]
    environment = {**os.environ, **clusters.ENVIRONMENT, "RAY_ADDRESS": cluster.runner}
    return subprocess.run([*command, *flags], env=environment, capture_output=True, text=True)


@contextlib.contextmanager
def start_cluster(name, directory):
    """Writes data, and starts a cluster with two workers."""
    small_records.make_data(str(directory / "data"), splits=[("train", 24), ("dev", 3)], with_audio=False)
    with clusters.start(name, directory) as cluster:
        cluster.start_worker()
        cluster.start_worker()
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["spark", "ray"])
def test_two_workers_of_a_cluster_train_one_model(name, tmp_path):
    flags = [*TRAIN, f"--data_dir={tmp_path}/data", f"--model_dir={tmp_path}/model"]
    with start_cluster(name, tmp_path) as cluster:
        done = run_script(name, cluster, flags)
    assert done.returncode == 0, done.stdout + done.stderr
    alone = programs.run("estimator_asr.train", *flags[:-1], f"--model_dir={tmp_path}/alone")
    assert alone.returncode == 0, alone.stderr
    weights, expected = (small_checkpoints.read_weights(tmp_path / name) for name in ("model", "alone"))
    assert weights["global_step"] == 6 and set(weights) == set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(weights[key], value, atol=1e-5, err_msg=key)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["spark", "ray"])
def test_after_the_death_of_a_trainer_the_same_command_continues(name, tmp_path):
    flags = [*TRAIN, "--train_steps=600", "--save_checkpoints_steps=20"]
    flags += [f"--data_dir={tmp_path}/data", f"--model_dir={tmp_path}/model"]
    with start_cluster(name, tmp_path) as cluster, futures.ThreadPoolExecutor() as pool:
        started = pool.submit(run_script, name, cluster, flags)
        while not list(tmp_path.glob("model/model.ckpt-[2-9]*.index")):
            assert not started.done(), started.result()
            time.sleep(0.1)
        find = ["pgrep", "-f", f"estimator_asr.train .*--model_dir={tmp_path}/model"]
        _, second = subprocess.run(find, capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(second), signal.SIGKILL)
        assert started.result().returncode != 0
        done = run_script(name, cluster, flags)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [path.read_text(errors="replace") for path in tmp_path.rglob("std*") if path.is_file()]
    assert any("continues from step" in text for text in (done.stdout, done.stderr, *logs))
    assert small_checkpoints.read_weights(tmp_path / "model")["global_step"] == 600
