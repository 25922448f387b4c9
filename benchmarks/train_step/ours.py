"""Our training step as the benchmark calls it; only this module uses the model_fn and the Estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Optional

import numpy as np
import tensorflow as tf

from benchmarks.train_step import work
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import estimator_api, experiment, model_directory, task_spec, training_config
from estimator_asr.inputs import buckets, input_progress, splits
from estimator_asr.models.tasks import tasks
from estimator_asr.monitoring.diagnostics import observers
from estimator_asr.training import model_fn, step_time
from estimator_asr.training import plan as plan_lib
from estimator_asr.training.distributed import strategies
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import vocabulary

_MATRIX_SIZE = 2048
_STEPS_PER_EPOCH = 1000.0
_NUM_FIRST_STEPS = 4  # a graph is optimised again for each set of fetches


class Session:
    """The step of the model_fn, run by a plain session.

    build_dataset makes the dataset of (features, labels); the plan is of a training on it.
    """

    def __init__(
        self,
        model: model_directory.ModelDirectory,
        build_dataset: Callable[[], tf.data.Dataset],
        plan: plan_lib.TrainingPlan,
    ):
        with tf.Graph().as_default() as graph:
            tf.compat.v1.set_random_seed(model.config.train.seed)
            tf.compat.v1.train.create_global_step()
            features, labels = tf.compat.v1.data.make_one_shot_iterator(build_dataset()).get_next()
            spec = _build_model_fn(model, plan)(features, labels, estimator_api.ModeKeys.TRAIN)
            self._variables = tf.compat.v1.trainable_variables()
            matrix = tf.random.stateless_normal([_MATRIX_SIZE, _MATRIX_SIZE], [1, 2])
            matrix = tf.compat.v1.get_variable("matrix", initializer=matrix, trainable=False)
            product = tf.matmul(matrix, matrix)
            initialise = tf.compat.v1.global_variables_initializer()
        config = strategies.session_config(model.config.train)
        self.graph, self._session = graph, tf.compat.v1.Session(graph=graph, config=config)
        self._session.run(initialise)
        norm = graph.get_operation_by_name("gradient-norm").inputs[1]
        self._step = self._session.make_callable([spec.loss, norm, spec.train_op])
        self._multiply = self._session.make_callable(product.op)

    def step(self) -> tuple[float, float]:
        """Runs one step; returns the loss and the gradient norm before the update."""
        return tuple(map(float, self._step()[:2]))

    def multiply(self) -> None:
        """Multiplies two large matrices; the result stays where it is."""
        self._multiply()

    def load(self, values: Mapping[str, np.ndarray]) -> None:
        """Loads values of variables by their names."""
        with self.graph.as_default():
            for variable in tf.compat.v1.global_variables():
                if variable.op.name in values:
                    variable.load(values[variable.op.name], self._session)

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the trained variables, keyed by name."""
        values = self._session.run(self._variables)
        return {variable.op.name: value for variable, value in zip(self._variables, values)}


def open_session(model: model_directory.ModelDirectory, batch: work.Batch) -> Session:
    """Returns the training step of an acoustic model on one batch."""
    return Session(model, lambda: _dataset(batch), _make_plan(batch))


def time_estimator(
    model: model_directory.ModelDirectory, batch: work.Batch, num_steps: int
) -> tuple[list[float], list[float]]:
    """Trains with an Estimator, its hooks and summaries; runs a bare step before each of its steps.

    Args:
      model: model whose path the Estimator writes to.
      batch: batch for every step.
      num_steps: number of steps of each kind.

    Returns:
      Seconds of the Estimator's steps, and of those by the same session without it, in turns.
    """
    turns = _Turns()
    run_config = estimator_api.RunConfig(
        model_dir=model.path,
        tf_random_seed=model.config.train.seed,
        # The global step counts the bare steps too.
        save_summary_steps=2 * model.config.train.save_summary_steps,
        save_checkpoints_steps=2 * (num_steps + _NUM_FIRST_STEPS) + 1,
        session_config=strategies.session_config(model.config.train),
    )
    trained = estimator_api.Estimator(_build_model_fn(model, _make_plan(batch), turns), config=run_config)
    trained.train(lambda: _dataset(batch), steps=2 * (num_steps + _NUM_FIRST_STEPS))
    return turns.estimator_seconds[_NUM_FIRST_STEPS:], turns.bare_seconds[_NUM_FIRST_STEPS:]


class _Turns(estimator_api.SessionRunHook):
    """Makes a bare step of the same session before each step of the Estimator."""

    def __init__(self):
        self.train_op = self.loss = None
        self.estimator_seconds, self.bare_seconds = [], []
        self._bare_ended = None

    def before_run(self, run_context):
        start = time.perf_counter()
        if self._bare_ended:
            self.estimator_seconds.append(start - self._bare_ended)
        run_context.session.run([self.train_op, self.loss])
        self._bare_ended = time.perf_counter()
        self.bare_seconds.append(self._bare_ended - start)


def make_model(
    config: config_lib.AcousticConfig,
    num_tokens: int,
    path: str,
    features: Optional[frontend.FrontendConfig] = None,
) -> model_directory.ModelDirectory:
    """Returns a ModelDirectory without files; num_tokens does not include the blank."""
    tokens = vocabulary.Vocabulary(["<unk>", *(f"token{i}" for i in range(1, num_tokens))])
    settings = experiment.ExperimentConfig(
        model="acoustic",
        acoustic=config,
        language=config_lib.LanguageConfig(),
        optimizer=training_config.OptimizerConfig(warmup_epochs=0),
        input=config_lib.InputConfig(),
        train=training_config.TrainConfig(),
        frontend=features or frontend.FrontendConfig(),
        token_type="word",
        tokens_sha256=tokens.sha256,
        characters_sha256="",
        readings_sha256="",
    )
    return model_directory.ModelDirectory(path, tasks.complete(settings), tokens, None, None)


def _build_model_fn(model, plan, turns=None):
    observed = observers.Training(model, [], [], "", None).observe(plan, step_time.Clock())
    inner = model_fn.build_model_fn(model, plan, observed.build_hooks if turns else ())

    def build(features, labels, mode):
        spec = inner(features, labels, mode)
        if turns is None:
            return spec
        turns.train_op, turns.loss = spec.train_op, spec.loss
        return spec._replace(training_hooks=[*spec.training_hooks, turns])

    return build


def _make_plan(batch):
    num_bins, num_tokens = batch.fbank.shape[2], batch.token_ids.shape[1]
    size, longest = len(batch.num_frames), int(batch.num_frames.max())
    return make_plan(task_spec.ACOUSTIC, size, longest, num_tokens, num_bins)


def make_plan(
    spec: task_spec.TaskSpec, size: int, longest: int, num_tokens: int, num_bins: Optional[int] = None
) -> plan_lib.TrainingPlan:
    """Returns the plan of epochs of as many utterances as their batches, of one size and length, hold."""
    counts = {longest: size * _STEPS_PER_EPOCH}
    source = splits.Split(spec, (), counts, 0.0, num_bins, "float16", num_tokens, "")
    bucketing = buckets.Bucketing((longest,), (size,), _STEPS_PER_EPOCH)
    return plan_lib.TrainingPlan(source, 0, 1000, input_progress.InputProgress(0, 0, "", bucketing, 1))


def _dataset(batch):
    labels = {"token_ids": batch.token_ids, "num_tokens": batch.num_tokens}
    features = {"fbank": batch.fbank, "num_frames": batch.num_frames, "seed": np.int64([1, 2]), **labels}
    return repeat(features, labels)


def repeat(features: Mapping[str, np.ndarray], labels: Iterable[str]) -> tf.data.Dataset:
    """Returns (features, those that are labels) over and over, with sizes that the graph does not know."""
    shapes = {name: [*([None] * min(value.ndim, 2)), *value.shape[2:]] for name, value in features.items()}
    shapes["seed"] = [2]

    def forget_sizes(values):
        return {
            key: tf.compat.v1.placeholder_with_default(value, shapes[key]) for key, value in values.items()
        }

    dataset = tf.data.Dataset.from_tensors(features).map(forget_sizes).repeat()
    return dataset.map(lambda values: (values, {key: values[key] for key in labels}))
