"""A Whisper encoder in the published format with random weights, which do not affect its speed."""

import json
import os

import numpy as np
import safetensors.numpy

from tfrecord_builder.audio import pretrained_encoder

_UNITS_PER_HEAD = 64  # the same for all sizes of Whisper (Radford et al. 2022, table 1)
POSITIONS = 1500  # 30 seconds
_LONGEST_WAVE = 10000.0


def make_sizes(layers: int = 6, units: int = 512) -> pretrained_encoder.PretrainedEncoder:
    """Returns the sizes of an encoder by blocks and width, by default those of whisper-base."""
    return pretrained_encoder.PretrainedEncoder(
        "whisper", 80, units, 4 * units, max(1, units // _UNITS_PER_HEAD), layers, sha256=""
    )


def write(directory: str, sizes: pretrained_encoder.PretrainedEncoder) -> str:
    """Writes config.json and model.safetensors, in half precision; returns the directory."""
    os.makedirs(directory, exist_ok=True)
    config = {
        "model_type": "whisper",
        "d_model": sizes.units,
        "encoder_layers": sizes.layers,
        "encoder_attention_heads": sizes.heads,
        "encoder_ffn_dim": sizes.inner_units,
        "num_mel_bins": sizes.num_mel_bins,
        "max_source_positions": POSITIONS,
    }
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    rng = np.random.default_rng(1)
    tensors = {f"model.encoder.{name}": _draw(rng, name, shape) for name, shape in _shapes(sizes).items()}
    safetensors.numpy.save_file(tensors, os.path.join(directory, "model.safetensors"))
    return directory


def sinusoids(length: int, units: int) -> np.ndarray:
    """Returns the positions, float64 [length, units]."""
    rates = _LONGEST_WAVE ** (-np.arange(units // 2) / (units // 2 - 1))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _draw(rng, name, shape):
    """Biases of 0.1 and weights that keep the size of what they multiply; norms scale by about 1."""
    if name == "embed_positions.weight":
        return sinusoids(*shape).astype(np.float16)
    centre = 1.0 if name.endswith("norm.weight") else 0.0
    scale = np.prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.1
    return (centre + scale * rng.standard_normal(shape)).astype(np.float16)


def _shapes(sizes):
    units = sizes.units
    shapes = {
        "conv1.weight": (units, sizes.num_mel_bins, 3),
        "conv1.bias": (units,),
        "conv2.weight": (units, units, 3),
        "conv2.bias": (units,),
        "embed_positions.weight": (POSITIONS, units),
        "layer_norm.weight": (units,),
        "layer_norm.bias": (units,),
    }
    for number in range(sizes.layers):
        block = _block_shapes(units, sizes.inner_units)
        shapes.update({f"layers.{number}.{name}": shape for name, shape in block.items()})
    return shapes


def _block_shapes(units, inner):
    shapes = {f"self_attn.{part}_proj.weight": (units, units) for part in ("q", "k", "v", "out")}
    shapes.update({f"self_attn.{part}_proj.bias": (units,) for part in ("q", "v", "out")})
    shapes.update({"fc1.weight": (inner, units), "fc1.bias": (inner,)})
    shapes.update({"fc2.weight": (units, inner), "fc2.bias": (units,)})
    for norm in ("self_attn_layer_norm", "final_layer_norm"):
        shapes.update({f"{norm}.weight": (units,), f"{norm}.bias": (units,)})
    return shapes
