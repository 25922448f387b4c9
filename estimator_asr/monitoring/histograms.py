"""Histograms of weights and gradients in TensorBoard, at a cadence of their own."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_asr import estimator_api


def build_hook(gradients: Sequence, steps: int, model_dir: str) -> estimator_api.SessionRunHook:
    """Returns a hook that writes them every so many steps, the first among them; other steps do not pay.

    Args:
        gradients: pairs of gradient (tf.Tensor or tf.IndexedSlices) and variable, as of objective.Step; of a
            table, the histogram is of the rows that have a gradient.
        steps: from one histogram to the next.
        model_dir: where the event file is.
    """
    histograms = []
    with tf.compat.v1.name_scope(None):
        for gradient, variable in gradients:
            name = variable.name.split(":")[0]
            histograms.append(_histogram(f"weights/{name}", variable))
            histograms.append(_histogram(f"gradients/{name}", _values(gradient)))
    # In no collection: what is there is written every --save_summary_steps.
    merged = tf.compat.v1.summary.merge(histograms, collections=[])
    return estimator_api.SummarySaverHook(save_steps=steps, output_dir=model_dir, summary_op=merged)


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


@tf.xla.experimental.jit_scope(compile_ops=False)  # the number of finite values is not known in advance
def _histogram(tag, tensor):
    """Without infinities and NaNs, on which the op would end training before others can say why."""
    values = tf.convert_to_tensor(tensor)
    finite = tf.boolean_mask(values, tf.math.is_finite(values))
    return tf.compat.v1.summary.histogram(tag, finite, collections=[])
