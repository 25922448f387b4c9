"""Tensors of pretrained encoders by their published names, and as variables of estimator_asr/models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

_PARTS = ("query", "key", "value")


class Module(NamedTuple):
    """A published layer norm (rank 1), dense layer (2) or convolution (3), [outputs, inputs, width].

    Attributes:
        scope: of its variables.
        shape: of its weight; that of its bias is shape[:1].
        is_weight_normed: whether the weight is weight_v, scaled to norm weight_g at each place of its width
            (Salimans and Kingma 2016).
    """

    scope: str
    shape: tuple[int, ...]
    has_bias: bool = True
    is_weight_normed: bool = False


def list_blocks(encoder, theirs: Mapping[str, str], prefix: str) -> dict[str, Module]:
    """Returns the modules of Transformer blocks; `theirs` are their names by scope, after prefix + N."""
    units, inner = encoder.units, encoder.inner_units
    shapes = {"inner": (inner, units), "outer": (units, inner)}
    shapes.update({"attention_norm": (units,), "feed_forward_norm": (units,)})
    modules = {}
    for number in range(encoder.layers):
        for scope, name in theirs.items():
            shape, has_bias = shapes.get(scope, (units, units)), not scope.endswith("key")  # see attention.py
            modules[f"{prefix}{number}.{name}"] = Module(f"block_{number + 1}/{scope}", shape, has_bias)
    return modules


def list_shapes(modules: Mapping[str, Module]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the tensors by published name."""
    weights = {f"{name}.weight": each.shape for name, each in modules.items() if not each.is_weight_normed}
    for name, each in modules.items():
        if each.is_weight_normed:
            weights.update({f"{name}.weight_g": (1, 1, each.shape[2]), f"{name}.weight_v": each.shape})
    return {**weights, **{f"{name}.bias": each.shape[:1] for name, each in modules.items() if each.has_bias}}


def to_variables(
    modules: Mapping[str, Module], tensors: Mapping[str, np.ndarray], num_blocks: int
) -> dict[str, np.ndarray]:
    """Returns the values of the variables by name below the scope of the encoder, float32."""
    values = {}
    for name, module in modules.items():
        weight, bias = ("scale", "shift") if len(module.shape) == 1 else ("kernel", "bias")
        values[f"{module.scope}/{weight}"] = _read_weight(module, tensors, name).T
        if module.has_bias:
            values[f"{module.scope}/{bias}"] = tensors[f"{name}.bias"]
    for number in range(1, num_blocks + 1):
        _join_projections(values, f"block_{number}/self_attention/")
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


def read_sizes(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Returns sizes of config.json, whose names there are the values of `names`, under the keys of these.

    Raises ValueError for a value that is no positive whole number, or heads that do not divide the units.
    """
    for name in names.values():
        value = settings.get(name)
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {value}, expected a whole number")
    heads, units = settings[names["heads"]], settings[names["units"]]
    if units % heads:
        raise ValueError(f"{names['heads']} is {heads}, expected a divisor of {names['units']}={units}")
    return {ours: settings[name] for ours, name in names.items()}


def _read_weight(module, tensors, name):
    if not module.is_weight_normed:
        return tensors[f"{name}.weight"]
    direction = np.asarray(tensors[f"{name}.weight_v"], np.float32)
    norm = np.sqrt(np.sum(np.square(direction), axis=(0, 1), keepdims=True))
    return tensors[f"{name}.weight_g"] * direction / norm


def _join_projections(values, scope):
    """Replaces the projections to queries, keys and values by one."""
    for kind, parts in (("kernel", _PARTS), ("bias", ("query", "value"))):
        joined = np.concatenate([values.pop(f"{scope}{part}/{kind}") for part in parts], axis=-1)
        values[f"{scope}query_key_value/{kind}"] = joined
