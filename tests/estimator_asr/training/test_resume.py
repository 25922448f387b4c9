"""Interrupted training ends with exactly the same weights as uninterrupted training."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import numpy as np
import paths
import pytest
import small_checkpoints
import small_models
import small_records
import tensorflow as tf
import tiny_flags

from estimator_asr import train as train_program
from estimator_asr.experiment import config, experiment, training_config
from estimator_asr.monitoring.diagnostics import observers
from estimator_asr.training import loop
from tfrecord_builder.data import dataset_info

NOISY = dataclasses.replace(small_models.LANGUAGE, language_dropout=0.2, ngram_dropout=0.3, token_noise=0.2)
ACOUSTIC = dataclasses.replace(small_models.ACOUSTIC, acoustic_dropout=0.2)


def train(
    tmp_path,
    name,
    steps,
    *,
    kind="language",
    batch_tokens=6,
    accumulation=1,
    is_evaluated=False,
    acoustic=ACOUSTIC,
    build_hooks=(),
    **watch,
):
    """Trains tmp_path/name, or continues its training, with additional hooks; returns its variables."""
    data = str(tmp_path / "data")
    if not os.path.exists(data):
        small_records.make_data(data, splits=[("train", 12), *([("dev", 3)] if is_evaluated else [])])
    info = dataset_info.DatasetInfo.load(data)
    settings = experiment.ExperimentConfig.for_data(
        info,
        acoustic=acoustic,
        language=NOISY,
        optimizer=training_config.OptimizerConfig(warmup_epochs=0, gradient_accumulation_steps=accumulation),
        input=config.InputConfig(batch_tokens=batch_tokens, batch_frames=130, num_buckets=2),
        train=training_config.TrainConfig(
            model=kind, train_steps=steps, eval_throttle_seconds=0, save_checkpoints_steps=5
        ),
        watch=training_config.WatchConfig(**watch),
        display=training_config.DisplayConfig(show_utterances=0),
    )
    if acoustic.softmax != config.FULL:
        settings = train_program.sort_tokens(settings, [info], [data])
    model = small_models.create_or_check(str(tmp_path / name), settings, data)

    def observe(*arguments):
        found = observers.Training(model, [info], [data], "", None).observe(*arguments)
        return found._replace(build_hooks=[*found.build_hooks, *build_hooks])

    loop.train(model, [info], [data], observe=observe)
    return small_checkpoints.read_weights(model.path)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, accumulation", [("language", 3), pytest.param("acoustic", 1, marks=pytest.mark.slow)]
)
def test_two_runs_end_with_the_weights_of_one(tmp_path, kind, accumulation):
    settings = {"kind": kind, "accumulation": accumulation, "is_evaluated": kind == "language"}
    check_two_runs(tmp_path, 4, 11, **settings)


def check_two_runs(tmp_path, first_steps, steps, **settings):
    straight = train(tmp_path, "straight", steps, **settings)
    train(tmp_path, "parts", first_steps, **settings)
    np.testing.assert_equal(train(tmp_path, "parts", steps, **settings), straight)


@pytest.mark.slow
def test_a_sampled_softmax_samples_the_same_tokens_after_an_interruption(tmp_path):
    acoustic = dataclasses.replace(ACOUSTIC, softmax="sampled", num_sampled=2, label_smoothing=0.0)
    check_two_runs(tmp_path, 3, 7, kind="acoustic", acoustic=acoustic)


@pytest.mark.long
def test_the_memory_probe_consumes_no_batch_of_the_data(tmp_path):
    positions = []
    train(tmp_path, "model", 1, try_worst_batch=True, build_hooks=[record(positions)])
    assert positions == [[1, 0]]


def record(positions):
    """Returns a function that builds a hook; in each step, the hook appends the batch's position to the list.

    A position is [seed + epoch, index of the batch in the epoch].
    """

    class RecordingHook(tf.compat.v1.train.SessionRunHook):
        def __init__(self, step):
            self._seed = step.features["seed"]

        def before_run(self, run_context):
            return tf.compat.v1.train.SessionRunArgs(self._seed)

        def after_run(self, run_context, run_values):
            positions.append(run_values.results.tolist())

    return RecordingHook


@pytest.mark.long
def test_a_run_with_different_batches_restarts_the_epoch(tmp_path):
    train(tmp_path, "model", 3)
    positions = []
    train(tmp_path, "model", 4, batch_tokens=12, build_hooks=[record(positions)])
    assert positions == [[1, 0]]


COMMAND = [
    *(sys.executable, "-m", "estimator_asr.train", "--model=language", "--train_steps=200"),
    *(*tiny_flags.LANGUAGE, "--batch_tokens=6", "--num_buckets=2", "--warmup_epochs=0"),
    *("--save_checkpoints_steps=40", "--notry_worst_batch"),
]


def start(tmp_path, name):
    command = [*COMMAND, f"--data_dir={tmp_path / 'data'}", f"--model_dir={tmp_path / name}"]
    return subprocess.Popen(command, cwd=paths.ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_process_continues_from_its_last_checkpoint_to_the_same_weights(tmp_path):
    small_records.make_data(str(tmp_path / "data"), splits=[("train", 12)], with_audio=False)
    straight, killed = start(tmp_path, "straight"), start(tmp_path, "killed")
    while killed.poll() is None and not list((tmp_path / "killed").glob("model.ckpt-[48]0.index")):
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    killed = start(tmp_path, "killed")
    output = [process.communicate(timeout=240)[1] for process in (killed, straight)]
    assert killed.returncode == straight.returncode == 0, output
    assert "continues from step" in output[0]
    weights = [small_checkpoints.read_weights(tmp_path / name) for name in ("killed", "straight")]
    np.testing.assert_equal(*weights)
