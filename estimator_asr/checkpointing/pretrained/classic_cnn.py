"""Keras acoustic models of the classic Mandarin cascade, layer by layer under the names of --encoder=cnn.

They are stacks of 3 x 3 convolutions (32, 32, 64, 64, 128, 128, often two or four more of 128) with pooling,
a dense layer and a dense output whose last class is the blank. Layers are told by kind and order, not name.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.checkpointing.pretrained import rectified_norm
from estimator_asr.models import encoders
from tfrecord_builder import errors

_ENCODER = "acoustic/encoder"
_NUM_CONVOLUTIONS = 2 * len(encoders.VGG_CHANNELS)


class Translation(NamedTuple):
    """Weights under our names, classes of the output, and sentences about what has no place."""

    values: dict[str, np.ndarray]
    num_classes: int
    remarks: tuple[str, ...]


class Layer(NamedTuple):
    """A layer of a Keras model; kind is conv, norm, dense or other."""

    name: str
    kind: str
    weights: dict[str, np.ndarray]


class Stack(NamedTuple):
    """The layers that matter, in order; a convolution with the batch norm behind it, if there is one."""

    convolutions: list[tuple[Layer, Optional[Layer]]]
    dense: list[Layer]


def translate(weights: dict[str, np.ndarray], path: str) -> Translation:
    """Brings the weights of a Keras model under our names.

    Convolutions that --encoder=cnn has not are left out, and with them the dense layer that reads them; the
    output is always taken over. Of the batch norms see rectified_norm.

    Args:
        weights: layer/weight -> values, in the order of the layers (weight_files.read_keras).
        path: of the file, for errors.

    Raises:
        errors.UserError: there is no convolution or no dense output.
    """
    layers = list_layers(weights)
    stack = _stack(layers)
    if not stack.convolutions or not stack.dense:
        got = f"{len(stack.convolutions)} convolutions and {len(stack.dense)} dense layers"
        raise errors.UserError(
            f"{path}: has {got}, expected the classic cascade's acoustic model; "
            f"look at it with python -m estimator_asr.show_weights {path}"
        )
    values, placed, affine = _translate_convolutions(stack.convolutions[:_NUM_CONVOLUTIONS])
    if len(stack.convolutions) == _NUM_CONVOLUTIONS and len(stack.dense) == 2:
        kernel, bias = rectified_norm.fold(*_kernel_and_bias(stack.dense[0]), affine)
        values.update({f"{_ENCODER}/project/kernel": kernel, f"{_ENCODER}/project/bias": bias})
        placed.append(stack.dense[0].name)
    kernel, bias = _kernel_and_bias(stack.dense[-1])
    values.update({"acoustic/ctc/class_vectors": kernel.T, "acoustic/ctc/bias": bias[None]})
    placed.append(stack.dense[-1].name)
    return Translation(values, kernel.shape[1], tuple(_remark(layers, placed, stack)))


def list_layers(weights: dict[str, np.ndarray]) -> list[Layer]:
    """Groups weights by layer; a number behind a weight's name (kernel_1) is Keras' own and dropped."""
    groups = {}
    for name, value in weights.items():
        layer, _, weight = name.rpartition("/")
        groups.setdefault(layer, {})[re.sub(r"_\d+$", "", weight)] = value
    return [Layer(name, _kind(group), group) for name, group in groups.items()]


def _kind(weights):
    if {"moving_mean", "moving_variance"} <= set(weights):
        return "norm"
    if "kernel" in weights and set(weights) <= {"kernel", "bias"}:
        return {2: "dense", 4: "conv"}.get(weights["kernel"].ndim, "other")
    return "other"


def _stack(layers):
    stack = Stack([], [])
    for layer in layers:
        if layer.kind == "dense":
            stack.dense.append(layer)
        elif layer.kind == "conv" and not stack.dense:
            stack.convolutions.append((layer, None))
        elif layer.kind == "norm" and not stack.dense and stack.convolutions:
            convolution, norm = stack.convolutions[-1]
            stack.convolutions[-1] = (convolution, norm or layer)
    return stack


def _kernel_and_bias(layer):
    kernel = layer.weights["kernel"]
    return kernel, layer.weights.get("bias", np.zeros(kernel.shape[-1], np.float32))


def _translate_convolutions(pairs):
    """Gives values by our names, the layers that have a place, and what the last batch norm leaves to do."""
    values, placed, affine = {}, [], None
    for i, (convolution, norm) in enumerate(pairs):
        scope = f"{_ENCODER}/convolution_{i // 2}_{i % 2}"
        kernel, bias = rectified_norm.fold(*_kernel_and_bias(convolution), affine)
        values[f"{scope}/kernel"] = kernel
        placed.append(convolution.name)
        affine = None
        if norm:
            averages, affine = rectified_norm.translate(norm.weights, bias)
            values.update({f"{scope}/batch_norm/{name}": value for name, value in averages.items()})
            placed.append(norm.name)
    return values, placed, affine


def _remark(layers, placed, stack):
    left = [layer for layer in layers if layer.name not in placed]
    if left:
        yield f"of the source no place in --encoder=cnn: {', '.join(map(_describe, left))}"
    if any(norm is None for _, norm in stack.convolutions[:_NUM_CONVOLUTIONS]):
        yield "convolutions of the source without batch norm: ours starts anew, their biases have no place"


def _describe(layer):
    return f"{layer.name} {list(max(layer.weights.values(), key=np.size).shape)}"
