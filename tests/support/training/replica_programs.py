"""Programs that train on two CPU replicas, in their own processes: a process creates its devices only once.

    python tests/support/training/replica_programs.py differences SETTINGS    for test_replicas
    python tests/support/training/replica_programs.py histograms DIR          for test_tensorboard
    python tests/support/training/replica_programs.py losses                  for test_model_fn
    python tests/support/training/replica_programs.py one_step MODEL_DIR      for test_warm_start
    python tests/support/training/replica_programs.py stopping DIR            for test_stopping
    python tests/support/training/replica_programs.py stuck DIR MINUTES       for test_step_time

The last line of the output is the result as JSON.
"""

import dataclasses
import json
import pathlib
import sys
import tempfile

import event_files
import new_models
import numpy as np
import small_checkpoints
import small_models
import tensorflow as tf

from estimator_asr.experiment import estimator_api, model_directory, training_config
from estimator_asr.monitoring import tensorboard
from estimator_asr.training import loop, model_fn, step_time
from estimator_asr.training.checkpointing import evaluation_log
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import optimization, skippable


def run_config(num_replicas, model_dir=None, **options) -> estimator_api.RunConfig:
    """Returns the RunConfig for CPU replicas; if model_dir is None, creates a temporary directory."""
    settings = training_config.TrainConfig(num_cpu_replicas=num_replicas)
    return estimator_api.RunConfig(
        model_dir or tempfile.mkdtemp(),
        tf_random_seed=1,
        checkpoint_save_graph_def=False,  # writing the graph takes longer than the steps
        session_config=strategies.session_config(settings),
        train_distribute=strategies.build_strategy(settings),
        **options,
    )


def differences(settings):
    """Returns each weight's largest difference between two replicas and one replica with whole batches."""
    values, expected = (_train(num_replicas, **json.loads(settings)) for num_replicas in (2, 1))
    assert set(values) == set(expected), sorted(set(values) ^ set(expected))
    return {name: float(np.abs(values[name] - expected[name]).max()) for name in expected}


def _train(num_replicas, kind, steps, num_batches=1, precision="float32"):
    model = small_models.make_without_dropout(tempfile.mkdtemp(), kind)
    # A rate of 0.01 would teach the language model the data in 40 steps. Gradients would then be nearly zero,
    # and Adam's steps would follow their rounding errors (8e-5 after 50 steps).
    rates = {"learning_rate": 0.003, "warmup_epochs": 0}
    optimizer = training_config.OptimizerConfig(gradient_accumulation_steps=num_batches, **rates)
    train = training_config.TrainConfig(model=kind, precision=precision)
    config = dataclasses.replace(model.config, optimizer=optimizer, train=train)
    build = model_fn.build_model_fn(dataclasses.replace(model, config=config), new_models.plan())
    estimator = estimator_api.Estimator(build, config=run_config(num_replicas))
    estimator.train(small_models.make_input_fn(is_whole=num_replicas == 1), max_steps=steps)
    return small_checkpoints.read_weights(estimator.model_dir)


def histograms(model_dir):
    """Trains three weights for one step, with histograms of the weights and gradients."""

    def input_fn():
        rows = [[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]], [0, 0]
        return tf.data.Dataset.from_tensor_slices(rows).batch(1).repeat()

    def build(features, labels, mode):
        weights = tf.compat.v1.get_variable("scope/w", initializer=[1.0, 2.0, 4.0])
        loss = tf.reduce_sum(weights * features[0])
        step = tf.compat.v1.train.get_or_create_global_step()
        update = optimization.Minimizer(skippable.Momentum(tf.constant(1.0), 0.0), 0, step).minimize(loss)
        hook = tensorboard.histogram_hook(update.gradients, 1, model_dir)
        return estimator_api.EstimatorSpec(mode, loss=loss, train_op=update.train_op, training_hooks=[hook])

    estimator_api.Estimator(build, config=run_config(2, model_dir)).train(input_fn, steps=1)


def losses():
    """Returns the scalar `loss` of the language model's first step on one replica, and on two replicas."""
    return [_read_first_loss(1), _read_first_loss(2)]


def _read_first_loss(num_replicas):
    settings = run_config(num_replicas, save_summary_steps=1)
    model = small_models.make_without_dropout(tempfile.mkdtemp(), "language")
    build = model_fn.build_model_fn(model, new_models.plan())
    input_fn = small_models.make_input_fn(is_whole=num_replicas == 1)
    estimator_api.Estimator(build, config=settings).train(input_fn, max_steps=1)
    (loss,) = event_files.read_scalars(settings.model_dir, "loss").values()
    return loss


def one_step(model_dir):
    model = model_directory.open_model_directory(model_dir)
    build = model_fn.build_model_fn(model, new_models.plan())
    estimator = estimator_api.Estimator(build, config=run_config(2, model_dir))
    estimator.train(new_models.build_input_fn(model), max_steps=1)


def stopping(directory):
    """Trains a model that learns nothing with a plateau schedule, until early stopping ends training."""
    model, infos, dirs = make_plateau_model(pathlib.Path(directory), num_replicas=2, train_steps=40)
    loop.train(model, infos, dirs)
    steps = [evaluation.step for evaluation in evaluation_log.read_evaluations(model.path)]
    return {"evaluated": steps, "rates": read_rates(model)}


def make_plateau_model(path, num_replicas=1, **train):
    """Returns the arguments of loop.train for a model that learns nothing."""
    optimizer = training_config.OptimizerConfig(
        learning_rate=1e-12, warmup_epochs=0, schedule="plateau", plateau_evaluations=1
    )
    train = {"save_checkpoints_steps": 2, "save_summary_steps": 1, "num_cpu_replicas": num_replicas, **train}
    model, infos, dirs = small_models.make_for_loop(path, optimizer=optimizer, **train)
    stopping = training_config.StoppingConfig(early_stopping_evaluations=2)
    config = dataclasses.replace(model.config, stopping=stopping)
    return dataclasses.replace(model, config=config), infos, dirs


def read_rates(model) -> dict[int, float]:
    """Returns the learning rate of each step, relative to the first step."""
    rates = event_files.read_scalars(model.path, "learning-rate")
    return {step: rates[step] / rates[min(rates)] for step in sorted(rates)}


class FetchAlone(estimator_api.SessionRunHook):
    """Fetches a sum over both replicas on only one of them, so that the collective waits forever."""

    def __init__(self, step):
        self.norm = step.update.gradient_norm  # the first replica's tensor

    def after_run(self, run_context, run_values):
        print("waits", flush=True)
        run_context.session.run(self.norm)


def stuck(directory, minutes):
    """Waits forever after the first step; `minutes` is the time limit for all later steps."""
    step_time.POLL_SECONDS, step_time.SIGNAL_SECONDS, step_time.FIRST_STEP_FACTOR = 0.1, 1.0, 1000
    options = {"num_cpu_replicas": 2, "train_steps": 40, "max_step_minutes": float(minutes)}
    made = small_models.make_for_loop(pathlib.Path(directory), **options)
    loop.train(*made, observe=lambda plan, clock: loop.Observers([FetchAlone]))


if __name__ == "__main__":
    tf.compat.v1.disable_eager_execution()
    programs = (differences, histograms, losses, one_step, stopping, stuck)
    program = {program.__name__: program for program in programs}[sys.argv[1]]
    print(json.dumps(program(*sys.argv[2:])))
