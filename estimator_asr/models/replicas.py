"""Sums over the replicas of a tf.distribute strategy; with a single replica, values stay as they are.

ReplicaContext.all_reduce is not used: its gradient looks for variables by name and fails on those of other
replicas. All replicas must call these functions in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import tensorflow as tf

_GRADIENT = "SumOverReplicas"


def num_replicas() -> int:
    """Returns the number of replicas in a step; 1 without a strategy."""
    return tf.distribute.get_replica_context().num_replicas_in_sync


def name(variable: tf.Variable) -> str:
    """Returns the name of a variable, which is that of its op on the first replica."""
    return variable.name.partition(":")[0]


def get_variable(
    name: str, shape: Sequence[int], initial_value: float = 0.0, collections: Optional[list[str]] = None
) -> tf.Variable:
    """Returns a float32 variable that is not trained, of which each replica has its own copy.

    A checkpoint stores the copy of the first replica, and restores all of them.
    """
    return tf.compat.v1.get_variable(
        name,
        shape,
        # Not a constant_initializer: its tensor would stay in memory beside the variable.
        initializer=lambda shape, dtype: tf.fill(shape, tf.constant(initial_value, dtype)),
        trainable=False,
        collections=collections,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def sum_over_replicas(values: list) -> list:
    """Returns the sums over all replicas of a list of tensors; no gradient flows through."""
    if num_replicas() == 1:
        return values

    def reduce(strategy, *per_replica):
        pairs = [(value, value) for value in per_replica]  # each sum is placed beside its part
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)

    return tf.distribute.get_replica_context().merge_call(reduce, args=tuple(values))


def differentiable_sum(value: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a float tensor over all replicas.

    The sum of the losses of all replicas is minimised, so the gradient of a replica's value is the sum of the
    gradients that all replicas have for the total.
    """
    if num_replicas() == 1:
        return value
    (total,) = sum_over_replicas([value])
    with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": _GRADIENT}):
        return tf.identity_n([value, total])[1]


def group_over_replicas(op: tf.Operation) -> tf.Operation:
    """Returns one operation that runs `op` of all replicas."""
    context = tf.distribute.get_replica_context()
    return context.merge_call(
        lambda strategy, ops: tf.group(*strategy.experimental_local_results(ops)), args=(op,)
    )


def add_local(value: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a tensor over the replicas of this process, without a collective.

    It can be fetched alone: a collective that only one replica runs waits forever. The replicas' operations
    in a tf.group would not do, as TensorFlow computes no values that only control edges need.
    """
    context = tf.distribute.get_replica_context()
    return context.merge_call(
        lambda strategy, values: tf.add_n(strategy.experimental_local_results(values)), args=(value,)
    )


@tf.RegisterGradient(_GRADIENT)
def _sum_gradients(op, unused, gradient):
    return sum_over_replicas([gradient])[0], None
