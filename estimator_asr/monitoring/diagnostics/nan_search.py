"""NaN search: finds the first tensor of a graph that contains NaN or Inf, and its likely cause.

A single run checks all float tensors that the targets depend on. A tensor is reported only if a path of
non-finite tensors leads from it to a target, so an Inf that is masked later is not mistaken for the cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

_OVERFLOW = "values exceeded the range of their type; use a lower --learning_rate or --clip_norm"
_CAUSES = {
    "Placeholder": "the input contains NaN or Inf; find all such records with python -m "
    "tfrecord_builder.verify --data_dir=DATA and build the data again",
    "ReadVariableOp": "the weights contain NaN or Inf, so no batch can be learned; return to an earlier "
    "checkpoint and use a lower --learning_rate",
    **dict.fromkeys(("Log", "Log1p"), "logarithm of zero or of a negative number"),
    **dict.fromkeys(("RealDiv", "Div", "Reciprocal", "ReciprocalGrad"), "division by zero"),
    "Sqrt": "square root of a negative number",
    "SqrtGrad": "gradient of a square root at zero",
    **dict.fromkeys(("Rsqrt", "RsqrtGrad"), "division by the square root of zero or of a negative number"),
    "Exp": "exp() overflows, because its input is above 88",
    **dict.fromkeys(
        ("Softmax", "LogSoftmax"), "softmax of values that are too large; use a lower --learning_rate"
    ),
    "CTCLoss": "the labels cannot be aligned with the frames; look for utterances with more tokens than "
    "frames after subsampling",
    "Pow": "power of zero or of a value that is too large",
}
_GRADIENT = re.compile(r"^gradients(_\d+)?/")


class NonFiniteTensor(NamedTuple):
    """The first tensor that contains NaN or Inf."""

    tensor: str  # name in the graph
    op: str  # type of the operation that computes it, such as "Log"
    layer: str  # variable scope of that operation
    is_backward: bool  # True if the tensor belongs to the gradient of the layer
    shape: tuple[int, ...]
    fraction: float  # fraction of elements that are NaN or Inf
    rows: Optional[list[int]]  # batch rows with NaN or Inf; None if the first axis is not the batch
    inputs: list[tuple[str, float, float]]  # name, minimum and maximum of each float input
    cause: str


def find_non_finite(
    session: tf.compat.v1.Session, targets: Sequence[tf.Tensor], feeds: Mapping, batch_size: int
) -> Optional[NonFiniteTensor]:
    """Returns the first tensor that makes a target (loss or gradient) non-finite; None if all are finite."""
    graph = session.graph
    needed = _ancestors([target.op for target in targets], lambda op: [tensor.op for tensor in op.inputs])
    ops = [op for op in graph.get_operations() if op.name in needed]  # operations come after their inputs
    tensors = [tensor for op in ops for tensor in op.outputs if tensor.dtype.is_floating]
    with graph.as_default():
        # A float [2] per tensor; the second element is 1 if the tensor contains NaN or Inf (CURT_HEALTH).
        health = [tf.raw_ops.DebugNumericSummaryV2(input=tensor, tensor_debug_mode=2) for tensor in tensors]
    bad = {tensor.name for tensor, (_, is_bad) in zip(tensors, session.run(health, feeds)) if is_bad}

    def keep_bad(candidates):
        return [tensor for tensor in candidates if tensor.name in bad]

    reaching = _ancestors(keep_bad(targets), lambda tensor: keep_bad(tensor.op.inputs))
    first = next((tensor for tensor in tensors if tensor.name in reaching), None)
    return None if first is None else _inspect(session, first, feeds, batch_size)


def describe(finding: NonFiniteTensor, ids: Sequence[str]) -> list[str]:
    """Returns the lines to print about a finding; `ids` are the batch's utterance ids."""
    shape = " x ".join(map(str, finding.shape)) or "scalar"
    lines = [
        f"first tensor with NaN or Inf: {finding.tensor}, computed by {finding.op} in the "
        f"{'backward' if finding.is_backward else 'forward'} pass of {finding.layer}",
        f"  shape {shape}, {100 * finding.fraction:.3g} % of its elements are NaN or Inf",
    ]
    if finding.rows is not None:
        lines.append(f"  utterances: {', '.join(ids[row] for row in finding.rows)}")
    lines += [f"  input {name} is finite, {low:g} to {high:g}" for name, low, high in finding.inputs]
    return [*lines, f"likely cause: {finding.cause}"]


def _ancestors(nodes, get_inputs):
    """Returns the names of the nodes (tensors or operations) and of every node that they depend on."""
    names, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node.name not in names:
            names.add(node.name)
            waiting.extend(get_inputs(node))
    return names


def _inspect(session, tensor, feeds, batch_size):
    inputs = [value for value in tensor.op.inputs if value.dtype.is_floating]
    value, input_values = session.run([tensor, inputs], feeds)
    is_bad = ~np.isfinite(np.float64(value))
    is_weight = tensor.op.type == "ReadVariableOp"
    name = tensor.op.inputs[0].op.name if is_weight else tensor.op.name
    scope = re.sub(r"_grad(/.*)?$", "", _GRADIENT.sub("", name))
    ranges = [
        (source.name, float(np.min(array)), float(np.max(array)))
        for source, array in zip(inputs, input_values)
        if np.size(array)
    ]
    return NonFiniteTensor(
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
    """Returns the batch rows with NaN or Inf; None for weights. The first axis may be batch x length."""
    # Weights have a static shape, whereas the first dimension of batch values is unknown.
    is_static = not tensor.shape.rank or tensor.shape[0] is not None
    if is_static or not is_bad.size or len(is_bad) % batch_size:
        return None
    return np.flatnonzero(is_bad.reshape(batch_size, -1).any(axis=1)).tolist()
