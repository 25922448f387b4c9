"""Matrix products: how fast this machine computes them, and how many a training step needs."""

from __future__ import annotations

import re
import time

import numpy as np
import tensorflow as tf

_COUNTED = re.compile("(Batch)?MatMul(V2|V3)?|(Conv2D|DepthwiseConv2dNative)(BackpropFilter|BackpropInput)?")


def measure_rate(size: int, seconds: float = 1.5) -> float:
    """Returns the best rate of float32 products of two [size, size] matrices, in operations per second.

    A product of [m, k] and [k, n] counts 2 m k n. Products are repeated for so many seconds.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sides = [tf.compat.v1.get_variable(name, [size, size]) for name in "ab"]
        product = tf.reduce_max(tf.matmul(*sides))  # returns one number, whatever the device
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(product)
        times, end = [], time.monotonic() + seconds
        while not times or time.monotonic() < end:
            begin = time.monotonic()
            session.run(product)
            times.append(time.monotonic() - begin)
    return 2.0 * size**3 / min(times)


class Counter:
    """Counts the operations of matrix products and convolutions that a target needs, gradients included.

    Those in functions, loops and fused kernels (CTC) are left out: they are few in comparison.

    Attributes:
        shapes: what to fetch in the run that is counted; it costs next to nothing.
    """

    def __init__(self, target: tf.Operation):
        graph = target.graph
        needed = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), [target.name])
        names = [node.name for node in needed.node if _COUNTED.fullmatch(node.op)]
        self._operations = [graph.get_operation_by_name(name) for name in names]
        with graph.as_default():
            self.shapes = [[tf.shape(item) for item in (*op.inputs, *op.outputs)] for op in self._operations]

    def count(self, shapes: list) -> int:
        """Returns the operations of the run that returned these shapes."""
        rows = [[list(map(int, shape)) for shape in row] for row in shapes]
        return sum(_operations(op, row) for op, row in zip(self._operations, rows))


def _operations(operation, shapes):
    """Returns 2 x outputs x terms per output; the gradients of a convolution cost as much as itself."""
    if "MatMul" in operation.type:
        is_transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        return 2 * int(np.prod(shapes[-1])) * shapes[0][-2 if is_transposed else -1]
    kernel = shapes[3 if operation.type.endswith("Filter") else 1]
    terms = kernel[0] * kernel[1] * (1 if operation.type.startswith("Depthwise") else kernel[2])
    return 2 * int(np.prod(shapes[2])) * terms
