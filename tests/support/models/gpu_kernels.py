"""The ops of a training step that have no kernel for a GPU, by TensorFlow's registry of kernels.

The wheel for Linux has the kernels of GPUs also on a machine without one.
"""

from __future__ import annotations

import tempfile

import new_models
import small_batches
import small_records
import tensorflow as tf
from tensorflow.python.framework import kernels

from estimator_asr.experiment import estimator_api
from estimator_asr.training import model_fn

_GPU = ("GPU", "DEFAULT")  # DEFAULT: any device


def build_nodes(kind):
    """Returns the nodes of a training step of a small model, those of its functions too."""
    model = small_batches.make_model(tempfile.mkdtemp(), kind)
    records = small_records.make_records("train", 6, small_records.TOKENS, small_records.FRONTEND, True)
    with tf.Graph().as_default() as graph:
        tf.compat.v1.train.create_global_step()
        inputs = {
            key: _placeholder(key, value) for key, value in small_batches.make_part(records, range(6)).items()
        }
        model_fn.build_model_fn(model, new_models.plan())(inputs, inputs, estimator_api.ModeKeys.TRAIN)
        definition = graph.as_graph_def()
    return [*definition.node, *(node for each in definition.library.function for node in each.node_def)]


def _placeholder(key, value):
    shape = value.shape if key == "seed" else [None] * value.ndim
    return tf.compat.v1.placeholder(value.dtype, [*shape[:-1], value.shape[-1]] if key == "fbank" else shape)


def find_missing(nodes, kind=tf.float32):
    """Returns the ops without a kernel for a GPU where float32 is `kind`; constants of text are left out."""
    return {node.op for node in nodes if _computes(node, kind) and not _has_kernel(node, kind)}


def _computes(node, kind):
    types = _types(node)
    return node.op != "Const" and (kind == tf.float32 or tf.float32.as_datatype_enum in types)


def _types(node):
    return [each for value in node.attr.values() for each in (value.type, *value.list.type) if each]


def _has_kernel(node, kind):
    registered = kernels.get_registered_kernels_for_op(node.op).kernel
    return not registered or any(each.device_type in _GPU and _takes(each, node, kind) for each in registered)


def _takes(kernel, node, kind):
    changed = {tf.float32.as_datatype_enum: kind.as_datatype_enum}
    for constraint in kernel.constraint:
        value, allowed = node.attr[constraint.name], constraint.allowed_values.list.type
        wanted = [changed.get(each, each) for each in (value.type, *value.list.type) if each]
        if not set(wanted) <= set(allowed):
            return False
    return True
