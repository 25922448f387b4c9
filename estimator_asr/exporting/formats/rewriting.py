"""Rewrites a graph to replace operations that a format lacks or that would suffer from quantisation.

Features are logarithms of energies that span many decades, so the frontend's matrix products must stay
float32 in int8 formats. In each product, the constant becomes the first factor, which is not quantised.
Fourier transforms, which formats support poorly or not at all, become matrix products as well.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_FRONTENDS = ("log_mel", "log_spectrogram", "whisper_log_mel")  # name scopes of the frontends


def is_frontend(name: str) -> bool:
    """Returns True if the operation or constant with this name belongs to the frontend."""
    return not set(_FRONTENDS).isdisjoint(name.split("/"))


def rewrite(graph: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Returns an equivalent graph with the same inputs and outputs."""
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph)
    nodes = {node.name: node for node in changed.node}
    for node in list(changed.node):
        if node.op in ("Real", "Imag"):
            _replace_part(changed, nodes, node)
        elif node.op == "ComplexAbs":
            _replace_magnitude(changed, nodes, node)
        elif node.op == "MatMul" and is_frontend(node.name):
            _swap_filters(changed, nodes, node)
        elif node.op == "Log1p":
            _replace_log1p(changed, node)
    return changed


def replace_erfc(graph: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Returns a graph without erfc, which TensorFlow 2.21 uses for gelu and ONNX lacks (LiteRT has gelu)."""
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph)
    for node in [node for node in changed.node if node.op == "Erfc"]:
        error = _add(changed, f"{node.name}/erf", "Erf", node.input, T=tf.float32)
        node.op = "Sub"
        node.input[:] = [_add_constant(changed, f"{node.name}/one", np.float32(1)), error.name]
    return changed


def _replace_part(graph, nodes, node) -> None:
    """Replaces the real or imaginary part of an FFT with the product of a Fourier basis and the frames."""
    frames, length = nodes[node.input[0]].input
    basis = _make_basis(int(_read(nodes[length])[0]), node.op)
    _transpose_product(graph, node, basis, frames)


def _transpose_product(graph, node, first: np.ndarray, second: str) -> None:
    """Makes a node compute second x first^T as (first x second^T)^T, so that `first` is the first factor."""
    factors = [_add_constant(graph, f"{node.name}/factor", first), second]
    product = _add(graph, f"{node.name}/product", "BatchMatMulV2", factors, T=tf.float32)
    product.attr["adj_y"].b = True
    axes = np.int32([*range(first.ndim - 2), first.ndim - 1, first.ndim - 2])
    node.op, node.input[:] = "Transpose", [product.name, _add_constant(graph, f"{node.name}/axes", axes)]
    _set_types(node, T=tf.float32, Tperm=tf.int32)


def _replace_magnitude(graph, nodes, node) -> None:
    squares = []
    for op in ("Real", "Imag"):
        part = _add(graph, f"{node.name}/{op}", op, [node.input[0]])
        _replace_part(graph, nodes, part)
        squares.append(_add(graph, f"{part.name}/square", "Square", [part.name], T=tf.float32).name)
    power = _add(graph, f"{node.name}/power", "AddV2", squares, T=tf.float32)
    node.op, node.input[:] = "Sqrt", [power.name]
    _set_types(node, T=tf.float32)


def _swap_filters(graph, nodes, node) -> None:
    """Makes the filters, float32 [num_frequencies, num_filters], the first of the two factors.

    LiteRT's converter would swap the factors back, and quantise the filters, if both factors were matrices or
    if the product were transposed directly. Therefore, the second factor is the rank-3 tensor that
    tf.tensordot reshapes before the product (its reshape after the product accepts either rank). Between
    product and transposition, an absolute value is taken; it has no effect, as no product is negative.
    """
    frames, filters = node.input
    _transpose_product(graph, node, _read(nodes[filters]).T[None], nodes[frames].input[0])
    magnitude = _add(graph, f"{node.name}/magnitude", "Abs", node.input[:1], T=tf.float32)
    node.input[0] = magnitude.name


def _replace_log1p(graph, node) -> None:
    one = _add_constant(graph, f"{node.name}/one", np.float32(1))
    total = _add(graph, f"{node.name}/total", "AddV2", [node.input[0], one], T=tf.float32)
    node.op, node.input[:] = "Log", [total.name]


def _add(graph, name: str, op: str, inputs, **types):
    node = graph.node.add(name=name, op=op, input=inputs)
    _set_types(node, **types)
    return node


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


def _make_basis(length: int, part: str) -> np.ndarray:
    """Returns the float32 [1, length / 2 + 1, length] matrix that computes an FFT's `part` (Real or Imag)."""
    angles = 2 * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(length)) / length
    return (np.cos(angles) if part == "Real" else -np.sin(angles)).astype(np.float32)[None]
