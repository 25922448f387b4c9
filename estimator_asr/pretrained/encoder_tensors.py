"""Converts the tensors of published encoders and decoders to the variables of estimator_asr.models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_PROJECTIONS = {"q": "query", "k": "key", "v": "value", "out": "output"}
# Projections that attention.py computes in one matrix product, keyed by the attention's scope.
_FUSED = {"self_attention": ("query", "key", "value"), "cross_attention": ("key", "value")}
_OTHER_SCOPES = ("attention_norm", "inner", "outer", "feed_forward_norm")  # scopes of a block's other modules


class Module(NamedTuple):
    """A published layer norm (weight of rank 1), dense layer (rank 2) or convolution (rank 3)."""

    scope: str  # scope of the module's variables in estimator_asr/models
    shape: tuple[int, ...]  # shape of the published weight, [outputs, inputs, width]; a bias has shape[:1]
    has_bias: bool = True


def list_blocks(encoder, prefix: str, attention: str, others: Sequence[str]) -> dict[str, Module]:
    """Returns the modules of Transformer blocks, keyed by published name, which starts with `prefix`.

    `attention` is the published name of the attention module. `others` are the published names of the layer
    norm before it, of the block's two dense layers, and of the layer norm before those.
    """
    units, inner = encoder.units, encoder.inner_units
    block = list_projections(attention, "self_attention", units)
    shapes = ((units,), (inner, units), (units, inner), (units,))
    block.update({name: Module(*module) for name, *module in zip(others, _OTHER_SCOPES, shapes)})
    return {
        f"{prefix}{number}.{name}": module._replace(scope=f"block_{number + 1}/{module.scope}")
        for number in range(encoder.layers)
        for name, module in block.items()
    }


def list_projections(attention: str, scope: str, units: int) -> dict[str, Module]:
    """Returns an attention module's projections, keyed by published name, which starts with `attention`."""
    return {
        f"{attention}.{theirs}_proj": Module(f"{scope}/{ours}", (units, units), has_bias=ours != "key")
        for theirs, ours in _PROJECTIONS.items()  # keys need no bias; see attention.py
    }


def to_variables(modules: Mapping[str, Module], tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the float32 values of the variables, keyed by name relative to the encoder's scope.

    Raises ValueError if a tensor is missing, or if its shape differs from its module's shape.
    """
    values = {}
    for name, module in modules.items():
        weight, bias = ("scale", "shift") if len(module.shape) == 1 else ("kernel", "bias")
        values[f"{module.scope}/{weight}"] = _read_weight(tensors, name, module.shape).T
        if module.has_bias:
            values[f"{module.scope}/{bias}"] = read(tensors, f"{name}.bias", module.shape[:1])
    for scope in [name[: -len("key/kernel")] for name in values if name.endswith("/key/kernel")]:
        parts = _FUSED[scope.split("/")[-2]]
        for kind in ("kernel", "bias"):
            names = [f"{scope}{part}/{kind}" for part in parts if f"{scope}{part}/{kind}" in values]
            fused = np.concatenate([values.pop(name) for name in names], axis=-1)
            values[f"{scope}{'_'.join(parts)}/{kind}"] = fused
    return values


def read_sizes(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Returns sizes from config.json, keyed by our names; `names` maps our names to the names in config.json.

    Raises ValueError if a size is not a positive whole number, or if `heads` does not divide `units`.
    """
    for name in names.values():
        value = settings.get(name)
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {value}, expected a positive whole number")
    heads, units = settings[names["heads"]], settings[names["units"]]
    if units % heads:
        raise ValueError(f"{names['heads']} is {heads}, expected a divisor of {names['units']}={units}")
    return {ours: settings[name] for ours, name in names.items()}


def _read_weight(tensors, name, shape):
    """Returns a weight; with weight norm, scales weight_v to norm weight_g at each position of the kernel."""
    if f"{name}.weight_v" not in tensors:
        return read(tensors, f"{name}.weight", shape)
    direction = read(tensors, f"{name}.weight_v", shape)
    norm = np.linalg.norm(direction, axis=(0, 1), keepdims=True)
    return read(tensors, f"{name}.weight_g", norm.shape) * direction / norm


def read(tensors: Mapping[str, np.ndarray], name: str, shape: Sequence[int]) -> np.ndarray:
    """Returns a tensor as float32; raises ValueError if the tensor is missing or has another shape."""
    got = list(tensors[name].shape) if name in tensors else None
    if got != list(shape):
        problem = f"has shape {got}" if got is not None else "is missing"
        raise ValueError(f"{name} {problem}, but config.json needs shape {list(shape)}")
    return np.asarray(tensors[name], np.float32)
