"""A small random HuBERT or wav2vec 2.0 encoder in the published layout, and an independent NumPy encoder."""

import json
import os

import numpy as np
import numpy_transformer as layers
import safetensors.numpy

CONFIG = {
    "model_type": "hubert",
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "conv_dim": [8, 8, 8, 8, 8, 8, 12],
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "conv_bias": False,
    "feat_extract_norm": "group",
    "do_stable_layer_norm": False,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "layer_norm_eps": 1e-05,
    "hidden_act": "gelu",
}
LARGE = {
    "conv_bias": True,
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
}  # the settings of large models
PREPROCESSOR = {"do_normalize": True, "sampling_rate": 16000, "feature_size": 1, "padding_side": "right"}


def make_tensors(seed: int = 0, **changes) -> dict[str, np.ndarray]:
    """Returns float32 tensors by their official names."""
    config, rng = {**CONFIG, **changes}, np.random.default_rng(seed)
    units, inner, channels = config["hidden_size"], config["intermediate_size"], config["conv_dim"]
    width, groups = config["num_conv_pos_embeddings"], config["num_conv_pos_embedding_groups"]
    tensors = {"masked_spec_embed": np.zeros(units, np.float32)}  # not read

    def draw(name, *shape, has_bias=True, centre=0.0):
        scale = np.prod(shape[1:], initial=1) ** -0.5
        tensors[f"{name}.weight"] = np.float32(centre + scale * rng.normal(size=shape))
        if has_bias:
            tensors[f"{name}.bias"] = np.float32(0.3 * rng.normal(size=shape[:1]))

    for number, (num_inputs, num_outputs) in enumerate(zip([1, *channels], channels)):
        layer, kernel = f"feature_extractor.conv_layers.{number}", config["conv_kernel"][number]
        draw(f"{layer}.conv", num_outputs, num_inputs, kernel, has_bias=config["conv_bias"])
        if number == 0 or config["feat_extract_norm"] == "layer":
            draw(f"{layer}.layer_norm", num_outputs, centre=1.0)
    draw("feature_projection.layer_norm", channels[-1], centre=1.0)
    draw("feature_projection.projection", units, channels[-1])
    draw("encoder.pos_conv_embed.conv", units, units // groups, width)
    direction = tensors.pop("encoder.pos_conv_embed.conv.weight")
    tensors["encoder.pos_conv_embed.conv.weight_v"] = direction
    tensors["encoder.pos_conv_embed.conv.weight_g"] = np.float32(rng.uniform(1, 3, [1, 1, width]))
    draw("encoder.layer_norm", units, centre=1.0)
    for number in range(config["num_hidden_layers"]):
        block = f"encoder.layers.{number}"
        for part in ("q", "k", "v", "out"):
            draw(f"{block}.attention.{part}_proj", units, units)
        draw(f"{block}.feed_forward.intermediate_dense", inner, units)
        draw(f"{block}.feed_forward.output_dense", units, inner)
        for norm in ("layer_norm", "final_layer_norm"):
            draw(f"{block}.{norm}", units, centre=1.0)
    return tensors


def write(directory, tensors=None, preprocessor=PREPROCESSOR, prefix="", **changes) -> str:
    """Writes config.json, preprocessor_config.json and model.safetensors; returns the directory."""
    os.makedirs(directory, exist_ok=True)
    for name, values in (("config", {**CONFIG, **changes}), ("preprocessor_config", preprocessor)):
        with open(os.path.join(directory, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(values, file)
    tensors = make_tensors(**changes) if tensors is None else tensors
    named = {f"{prefix}{name}": value for name, value in tensors.items()}
    safetensors.numpy.save_file(named, os.path.join(directory, "model.safetensors"))
    return str(directory)


def encode(samples: np.ndarray, tensors, do_normalize: bool = True, **changes) -> list[np.ndarray]:
    """Returns the outputs of each block, float64 [(num_samples - 400) // 320 + 1, units]."""
    config = {**CONFIG, **changes}
    tensors = {name: np.float64(value) for name, value in tensors.items()}

    def get(name, has_bias=True):
        return (tensors[f"{name}.weight"], tensors[f"{name}.bias"] if has_bias else 0.0)

    hidden = np.float64(samples)[:, None]
    if do_normalize:
        hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-7)
    for number, stride in enumerate(config["conv_stride"]):
        layer = f"feature_extractor.conv_layers.{number}"
        weight, bias = get(f"{layer}.conv", config["conv_bias"])
        hidden = layers.convolve(hidden, weight, stride) + bias
        if config["feat_extract_norm"] == "layer":
            hidden = layers.normalise(hidden, *get(f"{layer}.layer_norm"))
        elif number == 0:
            hidden = layers.normalise(hidden, *get(f"{layer}.layer_norm"), axis=0)
        hidden = layers.gelu(hidden)
    hidden = layers.normalise(hidden, *get("feature_projection.layer_norm"))
    hidden = layers.dense(hidden, *get("feature_projection.projection"))
    hidden = hidden + _positions(hidden, tensors, config)
    is_stable = config["do_stable_layer_norm"]
    if not is_stable:
        hidden = layers.normalise(hidden, *get("encoder.layer_norm"))
    outputs = []
    for number in range(config["num_hidden_layers"]):
        hidden = _block(hidden, f"encoder.layers.{number}.", get, config)
        outputs.append(hidden)
    if is_stable:
        outputs[-1] = layers.normalise(hidden, *get("encoder.layer_norm"))
    return outputs


def _positions(hidden, tensors, config):
    name = "encoder.pos_conv_embed.conv"
    direction, width = tensors[f"{name}.weight_v"], config["num_conv_pos_embeddings"]
    norms = np.array([np.linalg.norm(direction[:, :, i]) for i in range(width)])
    weight = tensors[f"{name}.weight_g"] * direction / norms
    padded = np.pad(hidden, [[width // 2, width // 2], [0, 0]])
    groups = config["num_conv_pos_embedding_groups"]
    pairs = zip(np.split(padded, groups, axis=1), np.split(weight, groups, axis=0))
    convolved = np.concatenate([layers.convolve(*pair, stride=1) for pair in pairs], axis=1)
    return layers.gelu(convolved[: len(hidden)] + tensors[f"{name}.bias"])  # an even width gives one more


def _block(hidden, prefix, get, config):
    parts = [get(f"{prefix}attention.{part}_proj") for part in ("q", "k", "v", "out")]

    def attend(inputs):
        return layers.attend(inputs, config["num_attention_heads"], *parts)

    def feed_forward(inputs):
        inner = layers.gelu(layers.dense(inputs, *get(f"{prefix}feed_forward.intermediate_dense")))
        return layers.dense(inner, *get(f"{prefix}feed_forward.output_dense"))

    for module, norm in ((attend, "layer_norm"), (feed_forward, "final_layer_norm")):
        if config["do_stable_layer_norm"]:
            hidden = hidden + module(layers.normalise(hidden, *get(f"{prefix}{norm}")))
        else:
            hidden = layers.normalise(hidden + module(hidden), *get(f"{prefix}{norm}"))
    return hidden
