"""The training program on two workers and an evaluator, as processes on this machine."""

import signal
import time

import local_cluster
import numpy as np
import programs
import pytest
import small_checkpoints
import small_records
import tensorflow as tf
import tiny_flags

TIMEOUT_SECONDS = 240
TRAIN = [
    *("estimator_asr.train", "--model=language", "--warmup_epochs=0", "--nowatchdog"),
    *(*tiny_flags.LANGUAGE, "--ngram_dropout=0", "--language_dropout=0"),
    *("--batch_tokens=12", "--num_buckets=3", "--notry_worst_batch"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("workers") / "data")
    small_records.make_data(path, splits=[("train", 24), ("dev", 3)], with_audio=False)
    return path


def build_command(data, model_dir, steps):
    return [*TRAIN, f"--data_dir={data}", f"--model_dir={model_dir}", f"--train_steps={steps}"]


def wait_for_checkpoint(path, workers):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not path.exists():
        is_running = all(process.is_alive() for process in workers.processes.values())
        assert is_running and time.monotonic() < deadline, workers.read_log("chief")
        time.sleep(0.02)


def finish(data, model_dir, logs, step):
    """Continues training in a cluster, and trains from the start in one process; returns both weights."""
    with local_cluster.start(build_command(data, model_dir, step), 2, logs) as workers:
        alone = programs.run(*build_command(data, model_dir.with_name("alone"), step))
        assert alone.returncode == 0, alone.stderr
        assert set(workers.wait(TIMEOUT_SECONDS).values()) == {0}, workers.read_log("chief")
        assert f"dev at step {step}: " in workers.read_log("evaluator")
    return [small_checkpoints.read_weights(path) for path in (model_dir, model_dir.with_name("alone"))]


def assert_equal(weights, expected):
    assert set(weights) == set(expected)
    for name in expected:
        np.testing.assert_allclose(weights[name], expected[name], atol=1e-5, err_msg=name)


@pytest.mark.long
def test_two_workers_and_an_evaluator_train_the_weights_of_one_process(data, tmp_path):
    weights, expected = finish(data, tmp_path / "model", tmp_path / "logs", 10)
    assert weights["global_step"] == 10
    assert_equal(weights, expected)
    assert not list((tmp_path / "model").glob("tmp_worker_*"))  # copies of the chief's checkpoints


@pytest.mark.slow
def test_sigterm_to_one_worker_ends_all_and_a_second_start_continues(data, tmp_path):
    model_dir, logs = tmp_path / "model", tmp_path / "logs"
    with local_cluster.start(build_command(data, model_dir, 100_000), 2, logs) as workers:
        wait_for_checkpoint(model_dir / "model.ckpt-0.index", workers)
        workers.send_signal("worker-1", signal.SIGTERM)
        workers.send_signal("evaluator", signal.SIGTERM)
        assert set(workers.wait(TIMEOUT_SECONDS).values()) == {143}
        for name in ("chief", "worker-1"):
            assert "SIGTERM: a checkpoint was saved" in workers.read_log(name)
    step = int(tf.train.load_variable(str(model_dir), "global_step"))
    assert step > 0
    assert_equal(*finish(data, model_dir, logs, step + 10))
    assert not list(model_dir.glob("tmp_worker_*"))


@pytest.mark.slow
def test_a_worker_that_was_killed_ends_the_others_and_all_continue_from_the_last_checkpoint(data, tmp_path):
    model_dir, logs = tmp_path / "model", tmp_path / "logs"
    command = [*build_command(data, model_dir, 100_000), "--save_checkpoints_steps=20"]
    with local_cluster.start(command, 2, logs) as workers:
        wait_for_checkpoint(model_dir / "model.ckpt-20.index", workers)
        workers.send_signal("worker-1", signal.SIGKILL)
        workers.processes["chief"].join(TIMEOUT_SECONDS)
        assert workers.processes["chief"].exitcode == 70, workers.read_log("chief")
    assert list((model_dir / "tmp_worker_0").glob("*.index"))
    said = workers.read_log("chief").splitlines()[-1]
    end = "died, so this worker ends too; start all workers again; the same command continues from the last"
    assert "worker 1 (127.0.0.1:" in said and said.endswith(f"{end} checkpoint")
    step = int(tf.train.load_variable(str(model_dir), "global_step"))
    assert_equal(*finish(data, model_dir, logs, step + 10))
    assert not list(model_dir.glob("tmp_worker_*"))
