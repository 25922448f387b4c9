"""Tensors of pretrained encoders by their published names, and as variables of estimator_asr/models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_PROJECTIONS = {"q": "query", "k": "key", "v": "value", "out": "output"}
# Projections that are one product here, by the scope of attention (attention.py).
_FUSED = {"self_attention": ("query", "key", "value"), "cross_attention": ("key", "value")}
_OTHERS = ("attention_norm", "inner", "outer", "feed_forward_norm")


class Module(NamedTuple):
    """A published layer norm (rank 1), dense layer (2) or convolution (3), [outputs, inputs, width]."""

    scope: str  # of its variables
    shape: tuple[int, ...]  # of its weight; shape[:1] of its bias
    has_bias: bool = True


def list_blocks(encoder, prefix: str, attention: str, others: Sequence[str]) -> dict[str, Module]:
    """Returns the modules of Transformer blocks by published name, which begins with prefix and number.

    `others` are the names of the layer norm of attention, both dense layers and their layer norm.
    """
    units, inner = encoder.units, encoder.inner_units
    block = list_projections(attention, "self_attention", units)
    shapes = ((units,), (inner, units), (units, inner), (units,))
    block.update({name: Module(*module) for name, *module in zip(others, _OTHERS, shapes)})
    return {
        f"{prefix}{number}.{name}": module._replace(scope=f"block_{number + 1}/{module.scope}")
        for number in range(encoder.layers)
        for name, module in block.items()
    }


def list_projections(attention: str, scope: str, units: int) -> dict[str, Module]:
    """Returns the modules of an attention by published name, which begins with that of the attention."""
    return {
        f"{attention}.{theirs}_proj": Module(f"{scope}/{ours}", (units, units), has_bias=ours != "key")
        for theirs, ours in _PROJECTIONS.items()  # keys need no bias, see attention.py
    }


def to_variables(modules: Mapping[str, Module], tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the values of the variables by name below the scope of the encoder, float32.

    Raises ValueError for a tensor that is missing or has another shape.
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
            found = [
                values.pop(name) for name in (f"{scope}{part}/{kind}" for part in parts) if name in values
            ]
            values[f"{scope}{'_'.join(parts)}/{kind}"] = np.concatenate(found, axis=-1)
    return values


def read_sizes(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Returns sizes of config.json, whose names there are the values of `names`, under the keys of these.

    Raises ValueError for a value that is not a positive whole number, or heads that do not divide the units.
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
    """Returns a weight; by weight norm it is weight_v, scaled to norm weight_g at each place of its width."""
    if f"{name}.weight_v" not in tensors:
        return read(tensors, f"{name}.weight", shape)
    direction = read(tensors, f"{name}.weight_v", shape)
    norm = np.linalg.norm(direction, axis=(0, 1), keepdims=True)
    return read(tensors, f"{name}.weight_g", norm.shape) * direction / norm


def read(tensors: Mapping[str, np.ndarray], name: str, shape: Sequence[int]) -> np.ndarray:
    """Returns a tensor as float32; raises ValueError if it is missing or has another shape."""
    got = list(tensors[name].shape) if name in tensors else "missing"
    if got != list(shape):
        raise ValueError(f"{name} is {got}, expected {list(shape)} by config.json")
    return np.asarray(tensors[name], np.float32)
