"""Rewrites the frontend of a graph: what ONNX lacks, and what quantisation would spoil.

Features are logarithms of energies over many decades, so their products stay in float32: as gathered sums,
of which quantisation knows nothing, or under the names that FRONTEND begins.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

FRONTEND = ("log_mel/", "log_spectrogram/", "whisper_log_mel/")


def replace_transforms(graph: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Returns the graph with products in place of Fourier transforms, of which formats have few or none.

    Waves come first in a product: constants that come second would be quantised.
    """
    changed, nodes = _copy(graph)
    for node in [each for each in changed.node if each.op in ("Real", "Imag")]:
        frames, length = nodes[node.input[0]].input
        waves = _add_constant(
            changed, f"{node.name}/waves", _make_waves(int(_read(nodes[length])[0]), node.op)
        )
        product = changed.node.add(name=f"{node.name}/product", op="BatchMatMulV2", input=[waves, frames])
        _set_types(product, T=tf.float32)
        product.attr["adj_y"].b = True
        order = _add_constant(changed, f"{node.name}/order", np.int32([0, 2, 1]))
        node.op, node.input[:] = "Transpose", [product.name, order]
        _set_types(node, T=tf.float32, Tperm=tf.int32)
    return changed


def spread_filters(graph: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Returns the graph with the mel filters as sums over the few frequencies that each filter has."""
    changed, nodes = _copy(graph)
    for node in [each for each in changed.node if each.op == "MatMul" and each.name.startswith(FRONTEND)]:
        frames, filters = node.input
        places, weights = _list_weights(_read(nodes[filters]))
        gathered = changed.node.add(name=f"{node.name}/gathered", op="GatherV2")
        axis = _add_constant(changed, f"{node.name}/axis", np.int32(1))
        gathered.input[:] = [frames, _add_constant(changed, f"{node.name}/places", places), axis]
        _set_types(gathered, Tparams=tf.float32, Tindices=tf.int32, Taxis=tf.int32)
        product = changed.node.add(name=f"{node.name}/product", op="Mul")
        product.input[:] = [gathered.name, _add_constant(changed, f"{node.name}/weights", weights)]
        _set_types(product, T=tf.float32)
        last = _add_constant(changed, f"{node.name}/last", np.int32(2))
        node.op, node.input[:] = "Sum", [product.name, last]
        _set_types(node, T=tf.float32, Tidx=tf.int32)
    return changed


def _copy(graph):
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph)
    return changed, {node.name: node for node in changed.node}


def _read(node) -> np.ndarray:
    return tf.make_ndarray(node.attr["value"].tensor)


def _add_constant(graph, name: str, value: np.ndarray) -> str:
    node = graph.node.add(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    return name


def _set_types(node, **types) -> None:
    node.attr.clear()
    for name, dtype in types.items():
        node.attr[name].type = dtype.as_datatype_enum


def _make_waves(length: int, part: str) -> np.ndarray:
    """Returns float32 [1, length / 2 + 1, length]: the real transform is its product with a frame."""
    angles = 2 * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(length)) / length
    return (np.cos(angles) if part == "Real" else -np.sin(angles)).astype(np.float32)[None]


def _list_weights(filters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places and weights of filters, float32 [num_frequencies, num_filters], that are not zero.

    Both are [num_filters, count]; beyond the weights of a filter are zeros.
    """
    count = int((filters != 0).sum(axis=0).max())
    places = np.argsort(filters.T == 0, axis=1, kind="stable")[:, :count].astype(np.int32)
    return places, np.take_along_axis(filters.T, places, axis=1)
