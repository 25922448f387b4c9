"""Optimizers whose update can be skipped inside the graph, once the gradients are known.

The update cannot be inside a conditional, because a conditional must not contain an all-reduce. It therefore
always runs, but a skipped update changes nothing, because the caller passes gradients of 0, the learning
rate is set to 0, and the decay rates to 1.

Each replica updates its own copy of the weights and slots with the same gradients. Checkpoints use the same
names as TensorFlow's v1 optimizers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from estimator_asr.models import replicas

# Maps a variable's name to its learning rate, as a fraction of the optimizer's learning rate.
RateOf = Callable[[str], float]


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), lazy for sparse gradients.

    In each step, TensorFlow's v1 Adam decays the moments of every row in a table. Here, rows without a
    gradient keep their moments and values, so the cost depends on the rows used, not on the table's size.
    """

    learning_rate: tf.Tensor  # float32 []
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    rate_of: RateOf = lambda name: 1.0

    def apply(self, pairs: list, is_applied: tf.Tensor) -> tf.Operation:
        """Returns the update for (gradient, variable) pairs, a no-op unless is_applied (bool []) is true."""
        power1 = replicas.get_variable("beta1_power", [], self.beta1)
        power2 = replicas.get_variable("beta2_power", [], self.beta2)
        beta1, beta2 = (tf.where(is_applied, beta, 1.0) for beta in (self.beta1, self.beta2))
        numbers = {
            "beta1_power": tf.identity(power1),
            "beta2_power": tf.identity(power2),
            "lr": tf.where(is_applied, self.learning_rate, 0.0),
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": self.epsilon,
        }
        updates = _apply_to_all(_apply_adam, pairs, numbers, self.rate_of)
        with tf.control_dependencies(updates):
            return tf.group(
                power1.assign(numbers["beta1_power"] * beta1), power2.assign(numbers["beta2_power"] * beta2)
            )


@dataclasses.dataclass(frozen=True)
class Momentum:
    """SGD with momentum; rows without a gradient keep their values and momentum."""

    learning_rate: tf.Tensor  # float32 []
    momentum: float
    rate_of: RateOf = lambda name: 1.0

    def apply(self, pairs: list, is_applied: tf.Tensor) -> tf.Operation:
        """Returns the update for (gradient, variable) pairs, a no-op unless is_applied (bool []) is true."""
        numbers = {
            "lr": tf.where(is_applied, self.learning_rate, 0.0),
            "momentum": tf.where(is_applied, self.momentum, 1.0),
        }
        return tf.group(*_apply_to_all(_apply_momentum, pairs, numbers, self.rate_of))


Optimizer = Adam | Momentum


def _apply_to_all(apply, pairs, numbers, rate_of):
    """Returns the updates of all variables, each with its own learning rate."""
    updates = []
    for gradient, variable in pairs:
        factor = rate_of(replicas.name(variable))
        scaled = numbers if factor == 1.0 else {**numbers, "lr": numbers["lr"] * factor}
        updates.append(apply(gradient, variable, **scaled))
    return updates


def _apply_adam(gradient, variable, **numbers):
    first, second = _get_slot(variable, "Adam"), _get_slot(variable, "Adam_1")
    if isinstance(gradient, tf.IndexedSlices):
        return _apply_adam_to_rows(gradient, variable, first, second, **numbers)
    return tf.raw_ops.ResourceApplyAdam(
        var=variable.handle, m=first.handle, v=second.handle, grad=gradient, **numbers
    )


def _apply_adam_to_rows(slices, variable, first, second, beta1_power, beta2_power, lr, beta1, beta2, epsilon):
    """Updates the rows that have a gradient; their indices must be unique."""
    rate = lr * tf.sqrt(1.0 - beta2_power) / (1.0 - beta1_power)
    first_rows = beta1 * _gather(first, slices.indices) + (1.0 - beta1) * slices.values
    second_rows = beta2 * _gather(second, slices.indices) + (1.0 - beta2) * tf.square(slices.values)
    step = rate * first_rows / (tf.sqrt(second_rows) + epsilon)
    indices = slices.indices
    return tf.group(
        tf.raw_ops.ResourceScatterUpdate(resource=first.handle, indices=indices, updates=first_rows),
        tf.raw_ops.ResourceScatterUpdate(resource=second.handle, indices=indices, updates=second_rows),
        tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=indices, updates=step),
    )


def _gather(variable, indices):
    return tf.raw_ops.ResourceGather(resource=variable.handle, indices=indices, dtype=tf.float32)


def _apply_momentum(gradient, variable, **numbers):
    handles = {"var": variable.handle, "accum": _get_slot(variable, "Momentum").handle}
    if isinstance(gradient, tf.IndexedSlices):
        return tf.raw_ops.ResourceSparseApplyMomentum(
            **handles, grad=gradient.values, indices=gradient.indices, **numbers
        )
    return tf.raw_ops.ResourceApplyMomentum(**handles, grad=gradient, **numbers)


def _get_slot(variable, name):
    return replicas.get_variable(f"{replicas.name(variable)}/{name}", variable.shape)
