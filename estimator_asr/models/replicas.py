"""Sums over the replicas of a tf.distribute strategy; with a single replica, values are returned unchanged.

ReplicaContext.all_reduce is not used, because its gradient looks up variables by name, and cannot find the
variables of other replicas. All replicas must call these functions in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import tensorflow as tf

_GRADIENT = "SumOverReplicas"


def num_replicas() -> int:
    """Returns the number of replicas that run each step; 1 if there is no strategy."""
    return tf.distribute.get_replica_context().num_replicas_in_sync


def name(variable: tf.Variable) -> str:
    """Returns the name of a variable's op; if each replica has a copy, this is the first copy's name."""
    return variable.name.partition(":")[0]


def get_variable(
    name: str, shape: Sequence[int], initial_value: float = 0.0, collections: Optional[list[str]] = None
) -> tf.Variable:
    """Returns a float32 variable that is not trained, with a separate copy on each replica.

    A checkpoint stores the first replica's copy, from which all copies are restored.
    """
    return tf.compat.v1.get_variable(
        name,
        shape,
        # constant_initializer is not used, because its tensor would stay in memory next to the variable.
        initializer=lambda shape, dtype: tf.fill(shape, tf.constant(initial_value, dtype)),
        trainable=False,
        collections=collections,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def sum_over_replicas(values: list) -> list:
    """Sums each tensor in a list over all replicas; no gradient flows through the sums."""
    if num_replicas() == 1:
        return values

    def reduce(strategy, *per_replica):
        pairs = [(value, value) for value in per_replica]  # puts each sum on the devices that hold its terms
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)

    return tf.distribute.get_replica_context().merge_call(reduce, args=tuple(values))


def differentiable_sum(value: tf.Tensor) -> tf.Tensor:
    """Sums a float tensor over all replicas; gradients flow through the sum.

    Training minimises the sum of the replicas' losses. So the gradient with respect to a replica's value is
    the sum of all replicas' gradients with respect to the total.
    """
    if num_replicas() == 1:
        return value
    (total,) = sum_over_replicas([value])
    with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": _GRADIENT}):
        return tf.identity_n([value, total])[1]


def group_over_replicas(op: tf.Operation) -> tf.Operation:
    """Returns one operation that runs the `op` of each replica in this process."""
    return _merge_local(lambda ops: tf.group(*ops), op)


def add_local(value: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a tensor over the replicas in this process, without a collective.

    The sum can be fetched on its own, whereas a collective would wait forever if only one replica ran it.
    tf.group would not be enough: a value that is needed only through control edges would not be computed.
    """
    return _merge_local(tf.add_n, value)


def _merge_local(function, value):
    """Passes `function` a list with the `value` of each replica in this process; returns the result."""
    return tf.distribute.get_replica_context().merge_call(
        lambda strategy, values: function(strategy.experimental_local_results(values)), args=(value,)
    )


@tf.RegisterGradient(_GRADIENT)
def _sum_gradients(op, unused, gradient):
    return sum_over_replicas([gradient])[0], None
