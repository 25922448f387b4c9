"""A small random Whisper encoder in the published layout, and an independent NumPy encoder."""

from __future__ import annotations

import functools
import json
import os

import numpy as np
import numpy_transformer as layers
import safetensors.numpy

CONFIG = {
    "model_type": "whisper",
    "d_model": 16,
    "encoder_layers": 3,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
}


def make_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Returns float16 tensors by their official names after "model.encoder."."""
    units, inner, rng = CONFIG["d_model"], CONFIG["encoder_ffn_dim"], np.random.default_rng(seed)

    def draw(*shape, centre=0.0):
        return np.float16(centre + rng.normal(size=shape) * np.prod(shape[1:], initial=1) ** -0.5)

    tensors = {
        "conv1.weight": draw(units, CONFIG["num_mel_bins"], 3),
        "conv1.bias": draw(units),
        "conv2.weight": draw(units, units, 3),
        "conv2.bias": draw(units),
        "embed_positions.weight": np.float16(sinusoids(CONFIG["max_source_positions"], units)),
        "layer_norm.weight": draw(units, centre=1.0),
        "layer_norm.bias": draw(units),
    }
    for number in range(CONFIG["encoder_layers"]):
        prefix = f"layers.{number}"
        for part in ("q", "k", "v", "out"):
            tensors[f"{prefix}.self_attn.{part}_proj.weight"] = draw(units, units)
            if part != "k":
                tensors[f"{prefix}.self_attn.{part}_proj.bias"] = draw(units)
        for norm in ("self_attn_layer_norm", "final_layer_norm"):
            tensors[f"{prefix}.{norm}.weight"] = draw(units, centre=1.0)
            tensors[f"{prefix}.{norm}.bias"] = draw(units)
        tensors[f"{prefix}.fc1.weight"], tensors[f"{prefix}.fc1.bias"] = draw(inner, units), draw(inner)
        tensors[f"{prefix}.fc2.weight"], tensors[f"{prefix}.fc2.bias"] = draw(units, inner), draw(units)
    return tensors


def write(directory, tensors=None, prefix="model.encoder.", **changes) -> str:
    """Writes config.json and model.safetensors; returns the directory."""
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**CONFIG, **changes}, file)
    tensors = make_tensors() if tensors is None else tensors
    decoder = {"model.decoder.embed_tokens.weight": np.zeros([2, 16], np.float16)}
    named = {f"{prefix}{name}": value for name, value in tensors.items()}
    safetensors.numpy.save_file({**named, **decoder}, os.path.join(directory, "model.safetensors"))
    return str(directory)


def encode(fbank: np.ndarray, tensors: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the outputs of each block, float64 [ceil(num_frames / 2), units]; the last is normalised."""
    tensors = {name: np.float64(value) for name, value in tensors.items()}
    hidden = np.float64(fbank)
    for name, stride in (("conv1", 1), ("conv2", 2)):
        padded = np.pad(hidden, [[1, 1], [0, 0]])
        hidden = layers.convolve(padded, tensors[f"{name}.weight"], stride) + tensors[f"{name}.bias"]
        hidden = layers.gelu(hidden)
    hidden = hidden + tensors["embed_positions.weight"][: len(hidden)]
    outputs = []
    for number in range(CONFIG["encoder_layers"]):
        hidden = _block(hidden, functools.partial(_get, tensors, f"layers.{number}."))
        outputs.append(hidden)
    outputs[-1] = layers.normalise(hidden, *_get(tensors, "", "layer_norm"))
    return outputs


def sinusoids(length: int, units: int) -> np.ndarray:
    rates = 10000.0 ** (-np.arange(units // 2) / (units // 2 - 1))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _get(tensors, prefix, name):
    return tensors[f"{prefix}{name}.weight"], tensors.get(f"{prefix}{name}.bias", 0.0)  # keys have no bias


def _block(hidden, get):
    parts = [get(f"self_attn.{part}_proj") for part in ("q", "k", "v", "out")]
    normalised = layers.normalise(hidden, *get("self_attn_layer_norm"))
    hidden = hidden + layers.attend(normalised, CONFIG["encoder_attention_heads"], *parts)
    normalised = layers.normalise(hidden, *get("final_layer_norm"))
    return hidden + layers.dense(layers.gelu(layers.dense(normalised, *get("fc1"))), *get("fc2"))
