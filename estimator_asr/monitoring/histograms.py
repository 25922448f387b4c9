"""Histograms of weights and gradients in TensorBoard, every --histogram_steps."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_asr.estimator import estimator_api


def build_hook(gradients: Sequence, steps: int, model_dir: str) -> estimator_api.SessionRunHook:
    """Returns a hook that writes histograms every `steps` steps, beginning with the first.

    The gradients are pairs of a gradient (tf.Tensor or tf.IndexedSlices) and its variable; a histogram of
    tf.IndexedSlices is of the rows that have a gradient.
    """
    histograms = []
    with tf.compat.v1.name_scope(None):
        for gradient, variable in gradients:
            name = variable.name.split(":")[0]
            values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
            histograms += [_histogram(f"weights/{name}", variable), _histogram(f"gradients/{name}", values)]
    # In no collection: the summaries there are written every --save_summary_steps.
    merged = tf.compat.v1.summary.merge(histograms, collections=[])
    return estimator_api.SummarySaverHook(save_steps=steps, output_dir=model_dir, summary_op=merged)


@tf.xla.experimental.jit_scope(compile_ops=False)  # the number of finite values is not known in advance
def _histogram(tag, tensor):
    """Leaves out NaN and Inf, at which the op would end training before others can explain them."""
    values = tf.convert_to_tensor(tensor)
    finite = tf.boolean_mask(values, tf.math.is_finite(values))
    return tf.compat.v1.summary.histogram(tag, finite, collections=[])
