"""NaN search: finds the first tensor of a graph that contains NaN or Inf, and its likely cause.

All float tensors that the targets depend on are checked in one run. A tensor counts only if a path of bad
tensors leads from it to a target, so an infinity that is masked later is not reported as the cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

_OVERFLOW = "values exceeded the largest of their type: lower --learning_rate or --clip_norm"
_OPS_BY_CAUSE = {
    "the input contains NaN or Inf: find all such records with python -m tfrecord_builder.verify "
    "--data_dir=DATA and build the data again": ["Placeholder"],
    "the weights contain NaN or Inf, so no batch can be learned: return to an earlier checkpoint and lower "
    "--learning_rate": ["ReadVariableOp"],
    "logarithm of zero or of a negative number": ["Log", "Log1p"],
    "division by zero": ["RealDiv", "Div", "Reciprocal", "ReciprocalGrad"],
    "square root of a negative number": ["Sqrt"],
    "gradient of a square root at zero": ["SqrtGrad"],
    "division by the square root of zero or of a negative number": ["Rsqrt", "RsqrtGrad"],
    "exp() overflows: its input is above 88": ["Exp"],
    "softmax of values that are too large: lower --learning_rate": ["Softmax", "LogSoftmax"],
    "the labels have no alignment with the frames: look for utterances with more tokens than frames after "
    "subsampling": ["CTCLoss"],
    "power of zero or of a value that is too large": ["Pow"],
}
_CAUSES = {op: cause for cause, ops in _OPS_BY_CAUSE.items() for op in ops}
_GRADIENT = re.compile(r"^gradients(_\d+)?/")


class Finding(NamedTuple):
    """The first non-finite tensor."""

    tensor: str  # name in the graph
    op: str  # type of its operation, such as "Log"
    layer: str  # variable scope of the operation
    is_backward: bool  # whether it belongs to the gradient of the layer
    shape: tuple[int, ...]
    fraction: float  # of its elements that are NaN or Inf
    rows: Optional[list[int]]  # that have some; None if the tensor does not have the rows of the batch
    inputs: list[tuple[str, float, float]]  # name, minimum, maximum of its float inputs, all finite
    cause: str


def find(
    session: tf.compat.v1.Session, targets: Sequence[tf.Tensor], feeds: Mapping, batch_size: int
) -> Optional[Finding]:
    """Returns the first tensor that makes a loss or gradient non-finite; None if all targets are finite."""
    tensors = _float_ancestors(session.graph, targets)
    with session.graph.as_default():
        # float [2] each; the second element is 1 if the tensor has a NaN or Inf (CURT_HEALTH).
        health = [tf.raw_ops.DebugNumericSummaryV2(input=tensor, tensor_debug_mode=2) for tensor in tensors]
    bad = {tensor.ref() for tensor, (_, is_bad) in zip(tensors, session.run(health, feeds)) if is_bad}
    reaching = _reaching(targets, bad)
    first = next((tensor for tensor in tensors if tensor.ref() in reaching), None)
    return None if first is None else _describe(session, first, feeds, batch_size)


def _float_ancestors(graph, targets):
    """Returns the float tensors that the targets depend on, each after its inputs."""
    seen, waiting = set(), [target.op for target in targets]
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    ops = [op for op in graph.get_operations() if op in seen]  # in the order of creation
    return [tensor for op in ops for tensor in op.outputs if tensor.dtype.is_floating]


def _reaching(targets, bad):
    """Returns the bad tensors from which a path of bad tensors leads to a target."""
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
    is_weight = tensor.op.type == "ReadVariableOp"
    name = tensor.op.inputs[0].op.name if is_weight else tensor.op.name
    scope = re.sub(r"_grad(/.*)?$", "", _GRADIENT.sub("", name))
    ranges = [
        (one.name, float(np.min(v)), float(np.max(v))) for one, v in zip(inputs, input_values) if np.size(v)
    ]
    return Finding(
        name if is_weight else tensor.name,
        tensor.op.type,
        scope.rpartition("/")[0] or scope,
        bool(_GRADIENT.match(name)),
        np.shape(value),
        float(np.mean(is_bad)),
        _rows(tensor, is_bad, batch_size),
        ranges,
        _CAUSES.get(tensor.op.type, _OVERFLOW),
    )


def _rows(tensor, is_bad, batch_size):
    """Returns the bad rows, even if batch and length share an axis; weights have a static size."""
    is_static = not tensor.shape.rank or tensor.shape[0] is not None
    if is_static or not is_bad.size or len(is_bad) % batch_size:
        return None
    return np.flatnonzero(is_bad.reshape(batch_size, -1).any(axis=1)).tolist()
