"""How much of a training step is matrix products, and how fast this machine makes them."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf

_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
# The filter's gradient and the input's cost as much as the convolution.
_FILTER_GRADIENTS = ("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter")
_INPUT_GRADIENTS = ("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput")


def measure_rate(size: int, seconds: float = 1.5) -> float:
    """Returns the rate of a float32 product of two matrices of size x size, in operations a second.

    A product of [m, k] and [k, n] counts 2 m k n. The best of as many products as fit the seconds.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sides = [tf.compat.v1.get_variable(name, [size, size]) for name in "ab"]
        product = tf.reduce_max(tf.matmul(*sides))  # one number comes back, whatever the device
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(product)
        times, end = [], time.monotonic() + seconds
        while not times or time.monotonic() < end:
            begin = time.monotonic()
            session.run(product)
            times.append(time.monotonic() - begin)
    return 2.0 * size**3 / min(times)


class Counter:
    """Counts the operations of the matrix products and convolutions that a target needs, gradients included.

    What stands in functions, loops and fused kernels (CTC) is left out: it is little beside.

    Attributes:
        shapes: what to fetch in the run that is counted; shapes cost it next to nothing.
    """

    def __init__(self, target: tf.Operation):
        graph = target.graph
        needed = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), [target.name])
        kinds = {*_PRODUCTS, *_CONVOLUTIONS, *_FILTER_GRADIENTS, *_INPUT_GRADIENTS}
        names = [node.name for node in needed.node if node.op in kinds]
        self._operations = [graph.get_operation_by_name(name) for name in names]
        with graph.as_default():
            self.shapes = [[tf.shape(item) for item in (*op.inputs, *op.outputs)] for op in self._operations]

    def count(self, shapes: list) -> int:
        """Returns the operations of the run that gave these shapes."""
        rows = [[list(map(int, shape)) for shape in row] for row in shapes]
        return sum(_operations(op, row) for op, row in zip(self._operations, rows))


def _operations(operation, shapes):
    """2 x outputs x what is added up for each; for a gradient as its convolution."""
    if operation.type in _PRODUCTS:
        is_turned = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        return 2 * int(np.prod(shapes[-1])) * shapes[0][-2 if is_turned else -1]
    if operation.type in _CONVOLUTIONS:
        _, kernel, outputs = shapes
    elif operation.type in _FILTER_GRADIENTS:
        _, _, outputs, kernel = shapes
    else:
        _, kernel, outputs, _ = shapes
    added = kernel[0] * kernel[1] * (1 if operation.type.startswith("Depthwise") else kernel[2])
    return 2 * int(np.prod(outputs)) * added
