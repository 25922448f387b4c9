"""Gradient accumulation: one update from several batches, equal to one large batch except for batch norm.

A training step adds its gradients to variables that exist on each replica and are not stored in checkpoints.
After the last batch, a hook runs the update, which sums over the replicas only once. Interrupted training
continues at the first batch after the last update.

The accumulated gradients are those of the loss summed over labels. They are divided by the number of labels
only at the end, so that batches are weighted by their number of labels. Within a batch, all replicas divide
by the same number, because batch norm's gradients are sums over the replicas. Batch norm uses the statistics
of each batch, and its moving averages are updated with the mean over the batches. A NaN or Inf stays in a
sum, so a single bad batch causes the whole update to be skipped.
"""

from __future__ import annotations

import math

import tensorflow as tf

from estimator_asr.experiment import estimator_api
from estimator_asr.models import normalisation, replicas
from estimator_asr.models.tasks import metrics
from estimator_asr.training.optimizer import optimization


def minimize(
    losses: metrics.Losses, minimizer: optimization.Minimizer, num_batches: int
) -> optimization.TrainingUpdate:
    """Builds a step for one batch; a hook in the result runs the update after every num_batches steps.

    `losses` are from this replica's batch. In the result, loss, gradients and is_finite describe this batch;
    the gradients come from this replica only, multiplied by the number of replicas. gradient_norm is the norm
    in the last update, or NaN if this batch is non-finite.
    """
    gradients, variables = minimizer.compute_gradients(losses.to_minimise())
    batch = _Batch(gradients, losses, minimizer.scale)
    pending = normalisation.pending_updates()
    sums = [_build_sum(variable, gradient) for variable, gradient in zip(variables, gradients)]
    average_sums = [_build_sum(average, change) for average, change in pending]
    totals = _DenseSum("loss_and_labels", [2])
    norm = _get_variable("gradient_norm", [])
    all_sums = [*sums, *average_sums, totals]
    addends = [*batch.weighted(), *(change for _, change in pending), batch.totals]
    update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    train_op = tf.group(*update_ops, *(total.add(value) for total, value in zip(all_sums, addends)))

    *summed, all_totals = optimization.sum_over_replicas([*(total.read() for total in sums), totals.read()])
    means = [(average, total.read() / num_batches) for (average, _), total in zip(pending, average_sums)]
    divisor = all_totals[1] * minimizer.scale.value if minimizer.scale else all_totals[1]
    op, _, new_norm, _ = minimizer.apply(list(zip(summed, variables)), all_totals[0], means, divisor)
    with tf.control_dependencies([op, norm.assign(new_norm)]):
        reset = tf.group(*(total.reset() for total in all_sums))
    return optimization.TrainingUpdate(
        train_op,
        tf.identity(minimizer.global_step),
        batch.loss,
        tuple(zip(batch.gradients, variables)),
        tf.where(batch.is_finite, tf.identity(norm), math.nan),
        batch.is_finite,
        minimizer.scalars,
        [UpdateHook(replicas.group_over_replicas(reset), num_batches)],
    )


class UpdateHook(estimator_api.SessionRunHook):
    """A hook that runs the update every num_batches steps; other hooks see the effect one step later."""

    def __init__(self, update: tf.Operation, num_batches: int):
        self._update = update
        self._num_batches = num_batches

    def after_create_session(self, session, coord):
        self._count = 0  # the sums are also zero in a new session

    def after_run(self, run_context, run_values):
        self._count += 1
        if self._count == self._num_batches:
            run_context.session.run(self._update)
            self._count = 0


class _Batch:
    """The gradients and losses that one batch adds to the sums."""

    def __init__(self, gradients, losses, scale):
        factor = replicas.num_replicas() / (1.0 if scale is None else scale.value)
        self._scaled = gradients
        self.gradients = [optimization.multiply(gradient, factor) for gradient in gradients]
        self.totals = tf.stack([losses.total, losses.num_labels])
        is_finite = tf.math.is_finite(tf.linalg.global_norm(gradients))
        flag = tf.cast(~is_finite, tf.float32)
        totals, num_bad = replicas.sum_over_replicas([self.totals, flag])
        self._weight = totals[1]  # number of labels on all replicas; each replica has divided its loss by it
        self.loss = tf.math.divide_no_nan(totals[0], totals[1])
        is_loss_finite, is_gradient_finite = tf.math.is_finite(totals[0]), num_bad < 0.5
        self.is_finite = is_loss_finite & is_gradient_finite
        if scale is not None:
            self.is_finite |= scale.is_overflow(is_loss_finite, is_gradient_finite)

    def weighted(self):
        """Returns the gradients of the loss summed over labels, multiplied by the loss scale."""
        return [optimization.multiply(gradient, self._weight) for gradient in self._scaled]


def _build_sum(variable, gradient):
    kind = _RowSum if isinstance(gradient, tf.IndexedSlices) else _DenseSum
    return kind(replicas.name(variable), variable.shape)


class _DenseSum:
    """A running sum of tensors with the same shape."""

    def __init__(self, name, shape):
        self._sum = _get_variable(name, shape)

    def add(self, value):
        return self._sum.assign_add(value)

    def read(self):
        return tf.identity(self._sum)

    def reset(self):
        return self._sum.assign(tf.zeros(self._sum.shape))


class _RowSum:
    """The sum of a table's sparse gradients, stored as a full table; only rows with gradients change."""

    def __init__(self, name, shape):
        self._sum = _get_variable(name, shape)
        self._occurs = _get_variable(f"{name}/occurs", shape[:1])

    @tf.xla.experimental.jit_scope(compile_ops=False)
    def add(self, slices):
        indices, ones = slices.indices, tf.ones(tf.shape(slices.indices))
        return tf.group(
            tf.raw_ops.ResourceScatterAdd(resource=self._sum.handle, indices=indices, updates=slices.values),
            tf.raw_ops.ResourceScatterUpdate(resource=self._occurs.handle, indices=indices, updates=ones),
        )

    @tf.xla.experimental.jit_scope(compile_ops=False)
    def read(self):
        indices = tf.where(tf.identity(self._occurs) > 0)[:, 0]
        values = tf.raw_ops.ResourceGather(resource=self._sum.handle, indices=indices, dtype=tf.float32)
        return tf.IndexedSlices(values, indices, tf.constant(self._sum.shape.as_list(), tf.int64))

    @tf.xla.experimental.jit_scope(compile_ops=False)
    def reset(self):
        rows = self.read()
        with tf.control_dependencies([rows.values]):
            zeros = tf.zeros_like(rows.values)
            reset = tf.raw_ops.ResourceScatterUpdate(
                resource=self._sum.handle, indices=rows.indices, updates=zeros
            )
            with tf.control_dependencies([reset]):
                return self._occurs.assign(tf.zeros(self._occurs.shape)).op


def _get_variable(name, shape):
    """Returns a local variable that has a copy on each replica and is zero when a session starts."""
    local = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]
    return replicas.get_variable(f"accumulated/{name}", shape, collections=local)
