"""Training steps by hand on a few batches in memory, without Estimator, checkpoints and hooks.

The step is that of the model_fn; its metrics are the scalars of TensorBoard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_asr import estimator_api, model_directory
from estimator_asr.inputs import dataset_elements
from estimator_asr.training import model_fn
from estimator_asr.training import plan as plan_lib


class Batches(NamedTuple):
    """Batches as a model_fn gets them: pairs (features, labels) of dicts of arrays, and their TensorSpecs."""

    values: list
    spec: tuple


class Trial:
    """The graph of a training step and its session.

    Attributes:
        session: with initialised variables.
        train_op: of the step.
    """

    def __init__(self, session: tf.compat.v1.Session, inputs: tuple, train_op: tf.Operation):
        self.session = session
        self.train_op = train_op
        self._inputs = inputs
        self._summary = tf.compat.v1.summary.merge_all()

    def step(self, batch: tuple, fetches: Any = ()) -> Any:
        """Runs one training step on (features, labels); returns the values of the fetches."""
        pairs = zip(self._inputs, batch)
        feed = {tensor: part[name] for inputs, part in pairs for name, tensor in inputs.items()}
        return self.session.run([self.train_op, fetches], feed)[1]

    def step_with_metrics(self, batch: tuple) -> dict[str, float]:
        """Runs one training step; returns its scalars by tag, computed before the update."""
        values = tf.compat.v1.Summary.FromString(self.step(batch, self._summary)).value
        return {value.tag: value.simple_value for value in values if value.HasField("simple_value")}


def read_batches(read: Callable[[], tf.data.Dataset], count: int) -> Batches:
    """Returns the first `count` batches of an input_fn, or all if there are fewer."""
    specs = []

    def build():
        dataset = read().take(count)
        specs.append(dataset.element_spec)
        return dataset

    return Batches(list(dataset_elements.read(build)), specs[0])


@contextlib.contextmanager
def start(
    model: model_directory.ModelDirectory,
    spec: Sequence[dict[str, tf.TensorSpec]],
    session_config: tf.compat.v1.ConfigProto,
) -> Iterator[Trial]:
    """Yields a trial of a new model; an epoch of its learning rate schedule is one batch.

    Args:
        model: settings and vocabularies; its directory is not written.
        spec: of the batches.
        session_config: settings of the session.
    """
    plan = plan_lib.one_utterance(model.config.spec)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=session_config) as session:
        tf.compat.v1.set_random_seed(model.config.train.seed)
        tf.compat.v1.train.create_global_step()
        inputs = tuple(
            {name: tf.compat.v1.placeholder(item.dtype, item.shape, name) for name, item in part.items()}
            for part in spec
        )
        built = model_fn.build_model_fn(model, plan)(*inputs, estimator_api.ModeKeys.TRAIN)
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        yield Trial(session, inputs, built.train_op)
