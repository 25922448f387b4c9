"""Whisper's weights as its authors and Hugging Face publish them: config.json and model.safetensors."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.models import frozen_encoder
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.storage import files

PUBLISHED = ("config.json", "model.safetensors")
_PREFIX = "model.encoder."
_NAME = re.compile(r"(model\.)?encoder\.")
_SIZES = {
    "num_mel_bins": "num_mel_bins",
    "units": "d_model",
    "inner_units": "encoder_ffn_dim",
    "heads": "encoder_attention_heads",
    "layers": "encoder_layers",
}
_ADVICE = (
    "pass the directory of a Whisper model as published, with config.json and one model.safetensors "
    "(pytorch_model.bin and weights in parts are not read), or download it again"
)


def find(path: str) -> Optional[tuple[str, str]]:
    """Returns the paths of both files in a directory, as published or as saved; None if it has no weights."""
    for names in (pretrained_encoder.FILES, PUBLISHED):
        config, weights = (os.path.join(path, name) for name in names)
        if files.exists(weights):
            return config, weights
    return None


def read(path: str) -> tuple[pretrained_encoder.PretrainedEncoder, dict[str, np.ndarray]]:
    """Returns the encoder of a directory, and its tensors by their official names after "encoder.".

    Raises:
        errors.UserError: a file is missing or damaged, is no Whisper model, or has tensors of other shapes.
    """
    paths = find(path)
    if paths is None:
        raise errors.UserError(f"{path}: {PUBLISHED[1]} is missing; {_ADVICE}")
    config, weights = paths
    sizes, tensors = _read_sizes(config), _read_tensors(weights)
    encoder = pretrained_encoder.PretrainedEncoder("whisper", sha256=_hash(tensors), **sizes)
    _check_shapes(weights, tensors, encoder)
    return encoder, tensors


def save(path: str, source: str) -> None:
    """Copies the encoder of the directory `source`, without a decoder, into the directory `path`."""
    from safetensors import numpy as safetensors_numpy

    _, tensors = read(source)
    config, weights = (os.path.join(path, name) for name in pretrained_encoder.FILES)
    named = {f"{_PREFIX}{name}": np.ascontiguousarray(value) for name, value in tensors.items()}
    with files.writing(weights) as temporary, open(temporary, "wb") as file:
        file.write(safetensors_numpy.save(named))  # save_file would not tell why the disk refuses it
    files.write_text(config, files.read_text(find(source)[0]))


def load(session: tf.compat.v1.Session, path: str, encoder: pretrained_encoder.PretrainedEncoder) -> None:
    """Loads the weights of a directory into the variables of frozen_encoder.build.

    Raises:
        errors.UserError: as read, or they are not those of the encoder.
    """
    stored, tensors = read(path)
    if stored != encoder:
        raise errors.UserError(
            f"{path}: encoder has weights of sha256 {stored.sha256[:12]}, expected {encoder.sha256[:12]}, of "
            "which data and model were made; restore the file"
        )
    values = to_variables(tensors)
    with session.graph.as_default():
        scope = f"{frozen_encoder.SCOPE}/"
        for variable in tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope):
            value = tf.compat.v1.placeholder(tf.float32, variable.shape)
            session.run(variable.assign(value), {value: values[variable.op.name[len(scope) :]]})


def to_variables(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the values of the variables of models/whisper.py by name below its scope, float32."""
    values = _translate_norm(tensors, "layer_norm", "output_norm")
    for i in range(2):
        kernel = tensors[f"conv{i + 1}.weight"]  # [units, inputs, 3]
        values[f"convolution_{i}/kernel"] = np.transpose(kernel, [2, 1, 0])
        values[f"convolution_{i}/bias"] = tensors[f"conv{i + 1}.bias"]
    for name in tensors:
        if name.endswith(".fc1.weight"):
            number = int(name.split(".")[1])
            block = _translate_block(tensors, f"layers.{number}.")
            values.update({f"block_{number + 1}/{key}": value for key, value in block.items()})
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


def _translate_block(tensors, prefix):
    def join(kind, parts):
        return [tensors[f"{prefix}self_attn.{part}_proj.{kind}"] for part in parts]

    return {
        **_translate_norm(tensors, f"{prefix}self_attn_layer_norm", "attention_norm"),
        "self_attention/query_key_value/kernel": np.concatenate(join("weight", "qkv")).T,
        "self_attention/query_key_value/bias": np.concatenate(join("bias", "qv")),
        "self_attention/output/kernel": tensors[f"{prefix}self_attn.out_proj.weight"].T,
        "self_attention/output/bias": tensors[f"{prefix}self_attn.out_proj.bias"],
        **_translate_norm(tensors, f"{prefix}final_layer_norm", "feed_forward_norm"),
        "inner/kernel": tensors[f"{prefix}fc1.weight"].T,
        "inner/bias": tensors[f"{prefix}fc1.bias"],
        "outer/kernel": tensors[f"{prefix}fc2.weight"].T,
        "outer/bias": tensors[f"{prefix}fc2.bias"],
    }


def _translate_norm(tensors, name, ours):
    return {f"{ours}/scale": tensors[f"{name}.weight"], f"{ours}/shift": tensors[f"{name}.bias"]}


def _read_sizes(path: str) -> dict[str, int]:
    try:
        config = json.loads(files.read_text(path))
    except (OSError, ValueError) as error:
        raise errors.UserError(f"{path}: cannot be read ({error}); {_ADVICE}") from error
    config = config if isinstance(config, dict) else {}
    if config.get("model_type") != "whisper":
        raise errors.UserError(
            f"{path}: model_type is {config.get('model_type')}, expected whisper; {_ADVICE}"
        )
    sizes: dict[str, Any] = {name: config.get(key) for name, key in _SIZES.items()}
    for name, value in sizes.items():
        if type(value) is not int or value < 1:
            raise errors.UserError(f"{path}: {_SIZES[name]} is {value}, expected a whole number; {_ADVICE}")
    return sizes


def _read_tensors(path: str) -> dict[str, np.ndarray]:
    import safetensors

    try:
        with safetensors.safe_open(path, framework="np") as file:
            names = {_NAME.sub("", name): name for name in file.keys() if _NAME.match(name)}
            return {name: file.get_tensor(names[name]) for name in sorted(names)}
    except (OSError, TypeError, safetensors.SafetensorError) as error:
        raise errors.UserError(f"{path}: cannot be read ({error}); {_ADVICE}") from error


def _hash(tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def _check_shapes(path, tensors, encoder):
    for name, shape in _shapes(encoder).items():
        got = list(tensors[name].shape) if name in tensors else "missing"
        if got != list(shape):
            raise errors.UserError(
                f"{path}: {name} is {got}, expected {list(shape)} by {PUBLISHED[0]}; {_ADVICE}"
            )


def _shapes(encoder) -> dict[str, tuple[int, ...]]:
    """A bias has the first size of its weight; only the projection of keys has none."""
    units, inner = encoder.units, encoder.inner_units
    block = {f"self_attn.{part}_proj": (units, units) for part in ("q", "k", "v", "out")}
    block.update({"fc1": (inner, units), "fc2": (units, inner)})
    block.update({"self_attn_layer_norm": (units,), "final_layer_norm": (units,)})
    weights = {"conv1": (units, encoder.num_mel_bins, 3), "conv2": (units, units, 3), "layer_norm": (units,)}
    for number in range(encoder.layers):
        weights.update({f"layers.{number}.{name}": shape for name, shape in block.items()})
    shapes = {f"{name}.weight": shape for name, shape in weights.items()}
    biases = {f"{name}.bias": shape[:1] for name, shape in weights.items() if not name.endswith("k_proj")}
    return {**shapes, **biases}
