"""Keras acoustic models of the classic Mandarin cascade, translated to the variables of --encoder=cnn.

They are stacks of 3 x 3 convolutions (32, 32, 64, 64, 128, 128, often two or four more of 128) with pooling,
a dense layer, and a dense output whose last class is the blank. Layers are recognised by kind and order.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from estimator_asr.checkpointing.pretrained import rectified_norm
from estimator_asr.models import cnn_encoder
from tfrecord_builder import errors

_ENCODER = "acoustic/encoder"
_NUM_CONVOLUTIONS = 2 * len(cnn_encoder.VGG_CHANNELS)


class Layer(NamedTuple):
    """A layer of a Keras model; kind is conv, norm, dense or other."""

    name: str
    kind: str
    weights: dict[str, np.ndarray]


def translate(weights: dict[str, np.ndarray], path: str) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Translates the weights of a Keras model.

    Convolutions that --encoder=cnn does not have are left out, together with the dense layer that reads them;
    the output is always copied. See rectified_norm for batch norm.

    Args:
        weights: layer/weight -> values, in the order of the layers (weight_files.read_keras).
        path: of the file, for errors.

    Returns:
        Values by our names, and sentences about what is left out.

    Raises:
        errors.UserError: there is no convolution or no dense output.
    """
    layers = list_layers(weights)
    dense = [layer for layer in layers if layer.kind == "dense"]
    stack = _list_convolutions(layers)
    if not stack or not dense:
        raise errors.UserError(
            f"{path}: has {len(stack)} convolutions and {len(dense)} dense layers, expected an acoustic "
            f"model of the classic cascade; inspect it with python -m estimator_asr.show_weights {path}"
        )
    values, affine = _translate_convolutions(stack[:_NUM_CONVOLUTIONS])
    used = [layer.name for pair in stack[:_NUM_CONVOLUTIONS] for layer in pair if layer] + [dense[-1].name]
    if len(stack) == _NUM_CONVOLUTIONS and len(dense) == 2:
        kernel, bias = rectified_norm.fold(*_kernel_and_bias(dense[0]), affine)
        values.update({f"{_ENCODER}/project/kernel": kernel, f"{_ENCODER}/project/bias": bias})
        used.append(dense[0].name)
    kernel, bias = _kernel_and_bias(dense[-1])
    values.update({"acoustic/ctc/class_vectors": kernel.T, "acoustic/ctc/bias": bias[None]})
    remarks = []
    if unused := [layer for layer in layers if layer.name not in used]:
        shapes = [max(layer.weights.values(), key=np.size).shape for layer in unused]
        described = ", ".join(f"{layer.name} {list(shape)}" for layer, shape in zip(unused, shapes))
        remarks.append(f"layers of the source that --encoder=cnn does not have: {described}")
    if any(norm is None for _, norm in stack[:_NUM_CONVOLUTIONS]):
        remarks.append(
            "convolutions of the source without batch norm: ours is initialised, their biases are lost"
        )
    return values, tuple(remarks)


def list_layers(weights: dict[str, np.ndarray]) -> list[Layer]:
    """Groups weights by layer; drops the number that Keras appends to the names of weights (kernel_1)."""
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


def _list_convolutions(layers):
    """Pairs each convolution before the first dense layer with the batch norm after it, or None."""
    stack = []
    for layer in layers:
        if layer.kind == "dense":
            break
        if layer.kind == "conv":
            stack.append((layer, None))
        elif layer.kind == "norm" and stack and stack[-1][1] is None:
            stack[-1] = (stack[-1][0], layer)
    return stack


def _translate_convolutions(pairs):
    """Returns values by our names, and the affine map that the last batch norm leaves to the next layer."""
    values, affine = {}, None
    for i, (convolution, norm) in enumerate(pairs):
        scope = f"{_ENCODER}/convolution_{i // 2}_{i % 2}"
        values[f"{scope}/kernel"], bias = rectified_norm.fold(*_kernel_and_bias(convolution), affine)
        affine = None
        if norm:
            averages, affine = rectified_norm.translate(norm.weights, bias)
            values.update({f"{scope}/batch_norm/{name}": value for name, value in averages.items()})
    return values, affine


def _kernel_and_bias(layer):
    kernel = layer.weights["kernel"]
    return kernel, layer.weights.get("bias", np.zeros(kernel.shape[-1], np.float32))
