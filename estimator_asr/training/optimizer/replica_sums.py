"""Sums gradients over the replicas of all workers.

A sparse gradient holds only the rows of a table that a step used. TensorFlow's collective gathers these rows,
but in graph mode it fails as soon as the number of rows differs between replicas or steps ("Shape mismatch in
the collective instance"). So the rows within one machine are concatenated without a collective, and each
worker's rows are padded to a power of two before they are gathered, with a separate gather op for each power.
"""

from __future__ import annotations

import math

import tensorflow as tf

_MULTI_WORKER = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
_SMALLEST_POWER, _LARGEST_POWER = 4, 24
_PADDING = -1  # index that marks a row as padding


def reduce(strategy: tf.distribute.Strategy, *values) -> list:
    """Sums each tensor or IndexedSlices over all replicas; must be called through merge_call."""
    sums = {}
    for place, value in enumerate(values):
        parts = strategy.experimental_local_results(value)
        if isinstance(parts[0], tf.IndexedSlices):
            row_values = tf.concat([part.values for part in parts], 0)
            indices = tf.concat([part.indices for part in parts], 0)
            rows = merge_rows(tf.IndexedSlices(row_values, indices, parts[0].dense_shape))
            sums[place] = _sum_rows(strategy, rows) if isinstance(strategy, _MULTI_WORKER) else rows
    dense = [place for place in range(len(values)) if place not in sums]
    pairs = [(values[place], values[place]) for place in dense]  # each sum stays on the device of its terms
    sums.update(zip(dense, strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)))
    return [sums[place] for place in range(len(values))]


@tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would recompile for every number of rows
def merge_rows(slices):
    """Sums rows of tf.IndexedSlices that have the same index; only then is the norm of the rows exact."""
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    indices, position = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, position, tf.size(indices))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def _sum_rows(strategy, own):
    """Returns the rows of all workers, summed where they share an index; `own` holds this worker's rows."""
    powers = range(_SMALLEST_POWER, count_powers(own) + 1)
    fitting = tf.searchsorted(tf.constant([2**power for power in powers]), tf.size(own.indices)[None])[0]
    votes = _sum(strategy, tf.one_hot(fitting, len(powers), dtype=tf.int32))
    highest = tf.cast(tf.reduce_max(tf.where(votes > 0)), tf.int32)
    gathers = [lambda size=2**power: _gather(strategy, own, size) for power in powers]
    values, indices = tf.switch_case(highest, gathers)
    is_row = tf.not_equal(indices, _PADDING)
    return merge_rows(tf.IndexedSlices(values[is_row], indices[is_row], own.dense_shape))


def count_powers(slices):
    """Returns the exponent of a power of two that is large enough for all rows of the table."""
    shape = tf.get_static_value(slices.dense_shape)
    return _LARGEST_POWER if shape is None else max(_SMALLEST_POWER, math.ceil(math.log2(shape[0])))


def _gather(strategy, rows, size):
    """Pads each worker's rows to `size` rows; returns the values and indices of all workers' rows."""
    missing = size - tf.size(rows.indices)
    padded = tf.IndexedSlices(
        tf.pad(rows.values, [[0, missing]] + [[0, 0]] * (rows.values.shape.rank - 1)),
        tf.pad(rows.indices, [[0, missing]], constant_values=_PADDING),
        rows.dense_shape,
    )
    gathered = _sum(strategy, padded)
    return gathered.values, gathered.indices


def _sum(strategy, value):
    result = strategy.extended.reduce_to(tf.distribute.ReduceOp.SUM, value, "/device:CPU:0")
    return strategy.experimental_local_results(result)[0]
