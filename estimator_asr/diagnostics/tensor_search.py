"""The first tensor of a graph that holds an inf or NaN, and what that says.

Every float tensor that the targets are made from is looked at in one run. A tensor counts only if what is bad
in it reaches a target by bad tensors alone, so an infinity that is masked later is not taken for the cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

_OVERFLOW = "numbers grew beyond the largest of their type: lower --learning_rate or --clip_norm"
# What an operation does to numbers, by its type in TensorFlow.
_CAUSES = {
    "Placeholder": "the input holds NaN or Inf before the model sees it: find all such records with "
    "python -m tfrecord_builder.verify --data_dir=DATA and build the data again",
    "ReadVariableOp": "the weights hold NaN or Inf already, so no batch can be learned: go back to an older "
    "checkpoint and lower --learning_rate",
    "Log": "logarithm of zero or of a negative number",
    "Log1p": "logarithm of zero or of a negative number",
    "RealDiv": "division by zero",
    "Div": "division by zero",
    "Reciprocal": "division by zero",
    "ReciprocalGrad": "division by zero",
    "Sqrt": "root of a negative number",
    "SqrtGrad": "slope of a root at zero",
    "Rsqrt": "division by the root of zero or of a negative number",
    "RsqrtGrad": "division by the root of zero or of a negative number",
    "Exp": "exp() overflows: its input is above 88",
    "Softmax": "softmax of numbers that are too large: lower --learning_rate",
    "LogSoftmax": "softmax of numbers that are too large: lower --learning_rate",
    "CTCLoss": "the labels have no alignment with the frames: look for utterances with more tokens than a "
    "quarter of their frames",
    "Pow": "power of zero or of a number that is too large",
    "Cast": _OVERFLOW,
}
_GRADIENT = re.compile(r"^gradients(_\d+)?/")


class Finding(NamedTuple):
    """Where numbers end.

    Attributes:
        tensor: name in the graph.
        op: type of its operation, as "Log".
        layer: variable scope that it is made in.
        is_backward: it belongs to the gradient of the layer.
        shape: of the value.
        share: of its cells that are inf or NaN.
        rows: of the batch that have some; None where the tensor does not have the batch's rows.
        inputs: (name, lowest, highest) of its float inputs, all of them finite.
        cause: in words.
    """

    tensor: str
    op: str
    layer: str
    is_backward: bool
    shape: tuple[int, ...]
    share: float
    rows: Optional[list[int]]
    inputs: list[tuple[str, float, float]]
    cause: str


def find(
    session: tf.compat.v1.Session, targets: Sequence[tf.Tensor], feeds: Mapping, batch_size: int
) -> Optional[Finding]:
    """Returns the first tensor that makes a target be no number; None if all targets are finite.

    Args:
        session: of the graph, variables restored.
        targets: loss and gradients, float.
        feeds: of the graph's placeholders.
        batch_size: rows of the batch.
    """
    tensors = _float_ancestors(session.graph, targets)
    with session.graph.as_default():
        flags = [_is_bad(tensor) for tensor in tensors]
    bad = {tensor.ref() for tensor, is_bad in zip(tensors, session.run(flags, feeds)) if is_bad[1]}
    reaching = _reaching(targets, bad)
    first = next((tensor for tensor in tensors if tensor.ref() in reaching), None)
    return None if first is None else _describe(session, first, feeds, batch_size)


def _is_bad(tensor):
    """Float [2], the second is 1 if an inf or NaN is among the values (CURT_HEALTH of debug_event.proto)."""
    return tf.raw_ops.DebugNumericSummaryV2(input=tensor, tensor_debug_mode=2)


def _float_ancestors(graph, targets):
    """Float tensors that the targets are made from, each after those that it is made from."""
    seen, waiting = set(), [target.op for target in targets]
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    ops = [op for op in graph.get_operations() if op in seen]  # in the order they were made
    return [tensor for op in ops for tensor in op.outputs if tensor.dtype.is_floating]


def _reaching(targets, bad):
    """Those of the bad tensors from which a way of bad tensors leads to a target."""
    found, waiting = set(), [target for target in targets if target.ref() in bad]
    while waiting:
        tensor = waiting.pop()
        if tensor.ref() not in found:
            found.add(tensor.ref())
            waiting.extend(value for value in tensor.op.inputs if value.ref() in bad)
    return found


def _describe(session, tensor, feeds, batch_size):
    inputs = [value for value in tensor.op.inputs if value.dtype.is_floating]
    value, input_values = session.run([tensor, inputs], feeds)
    is_bad = ~np.isfinite(np.float64(value))
    name = tensor.op.name
    is_backward = bool(_GRADIENT.match(name))
    ranges = [
        (one.name, float(np.min(given)), float(np.max(given)))
        for one, given in zip(inputs, input_values)
        if np.size(given)
    ]
    return Finding(
        tensor.op.inputs[0].op.name if tensor.op.type == "ReadVariableOp" else tensor.name,
        tensor.op.type,
        _layer(tensor),
        is_backward,
        np.shape(value),
        float(np.mean(is_bad)),
        _rows(tensor, is_bad, batch_size),
        ranges,
        _CAUSES.get(tensor.op.type, _OVERFLOW),
    )


def _layer(tensor):
    """The scope of the forward operation, as acoustic/encoder/block_0."""
    name = tensor.op.inputs[0].op.name if tensor.op.type == "ReadVariableOp" else tensor.op.name
    name = _GRADIENT.sub("", name)
    name = re.sub(r"_grad(/.*)?$", "", name)
    return name.rpartition("/")[0] or name


def _rows(tensor, is_bad, batch_size):
    """Rows of the batch, also where batch and length are one axis; weights have a size known beforehand."""
    is_static = not tensor.shape.rank or tensor.shape[0] is not None
    if is_static or not is_bad.size or len(is_bad) % batch_size:
        return None
    return np.flatnonzero(is_bad.reshape(batch_size, -1).any(axis=1)).tolist()
