"""Reads and saves pretrained encoders in Hugging Face's format: config.json and model.safetensors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.models import frozen_encoder
from estimator_asr.pretrained import encoder_tensors, wav2vec2_layout, whisper_layout
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend, pretrained_encoder
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

PUBLISHED = ("config.json", "model.safetensors")
PREPROCESSOR_FILE = "preprocessor_config.json"  # published with encoders that read a waveform
# Keyed by model_type in config.json.
LAYOUTS = {"whisper": whisper_layout, "hubert": wav2vec2_layout, "wav2vec2": wav2vec2_layout}
# Maps PyTorch 2's names of the weight norm tensors to the older names.
_RENAMED = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
_ADVICE = (
    "pass the directory of a Whisper, HuBERT or wav2vec 2.0 model as published, with config.json and one "
    "model.safetensors (pytorch_model.bin and sharded weights are not supported), or download it again"
)


def find(path: str) -> Optional[tuple[str, str]]:
    """Returns the paths of the encoder's config and weights in a directory; None if there are no weights."""
    for names in (pretrained_encoder.FILES, PUBLISHED):
        config, weights = (os.path.join(path, name) for name in names)
        if files.exists(weights):
            return config, weights
    return None


def read(path: str) -> tuple[pretrained_encoder.PretrainedEncoder, dict[str, np.ndarray]]:
    """Returns the encoder in a directory, and its tensors, keyed by published name.

    The prefix that the layout's NAME matches is removed from the names.
    Raises errors.UserError if a file is missing or damaged, the family is not supported, or a tensor is
    missing or has a shape that does not match config.json.
    """
    paths = find(path)
    if paths is None:
        raise errors.UserError(f"{path}: {PUBLISHED[1]} is missing; {_ADVICE}")
    config, weights = paths
    settings = _read_settings(config)
    family, layout = settings["model_type"], LAYOUTS[settings["model_type"]]
    with _naming(config):
        fields = layout.describe(settings)
    tensors = _read_tensors(weights, layout.NAME)
    encoder = pretrained_encoder.PretrainedEncoder(family, sha256=_hash(tensors), **fields)
    with _naming(weights):
        to_variables(encoder, tensors)
    return encoder, tensors


def save(path: str, source: str) -> None:
    """Copies the encoder (but not the decoder) in the directory `source` to the directory `path`."""
    from safetensors import numpy as safetensors_numpy

    encoder, tensors = read(source)
    config, weights = (os.path.join(path, name) for name in pretrained_encoder.FILES)
    prefix = LAYOUTS[encoder.family].PREFIX
    named = {f"{prefix}{name}": np.ascontiguousarray(value) for name, value in tensors.items()}
    with files.writing(weights) as temporary, open(temporary, "wb") as file:
        file.write(safetensors_numpy.save(named))  # save_file would not report why writing fails
    files.write_text(config, json.dumps(_read_settings(find(source)[0]), indent=2))


def load(session: tf.compat.v1.Session, path: str, encoder: pretrained_encoder.PretrainedEncoder) -> None:
    """Loads the weights in a directory into the variables that frozen_encoder.build has created.

    Raises errors.UserError if the weights cannot be read, or belong to an encoder other than `encoder`.
    """
    stored, tensors = read(path)
    if stored != encoder:
        raise errors.UserError(
            f"{path}: the sha256 of the encoder's weights is {stored.sha256[:12]}, expected "
            f"{encoder.sha256[:12]} as in the data and the model; restore the file"
        )
    assign(session, frozen_encoder.SCOPE, to_variables(encoder, tensors))


def assign(session: tf.compat.v1.Session, scope: str, values: Mapping[str, np.ndarray]) -> None:
    """Loads values into the variables of a scope; the keys of `values` are names relative to the scope."""
    with session.graph.as_default():
        variables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, f"{scope}/")
        inputs = [tf.compat.v1.placeholder(tf.float32, variable.shape) for variable in variables]
        assign_all = tf.group(*(variable.assign(value) for variable, value in zip(variables, inputs)))
        weights = (values[variable.op.name[len(scope) + 1 :]] for variable in variables)
        session.run(assign_all, dict(zip(inputs, weights)))  # one call, because each new one copies the graph


def read_decoder(path: str) -> tuple[types.SimpleNamespace, dict[str, np.ndarray]]:
    """Returns the sizes (see describe_decoder) and the float32 variables of a published Whisper decoder.

    The variables are the same as in models/whisper_decoder.py, but the embeddings cover all tokens.
    Raises errors.UserError if a file is missing or damaged, or a tensor's shape does not match config.json.
    """
    config, weights = (os.path.join(path, name) for name in PUBLISHED)
    with _naming(config):
        decoder = whisper_layout.describe_decoder(_read_settings(config))
    tensors = _read_tensors(weights, whisper_layout.DECODER_NAME)
    with _naming(weights):
        values = encoder_tensors.to_variables(whisper_layout.list_decoder_modules(decoder), tensors)
        for ours, theirs, rows in (
            ("embeddings", "embed_tokens.weight", decoder.num_tokens),
            ("positions", "embed_positions.weight", decoder.num_positions),
        ):
            values[ours] = encoder_tensors.read(tensors, theirs, (rows, decoder.units))
    return decoder, values


def to_variables(
    encoder: pretrained_encoder.PretrainedEncoder, tensors: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the encoder's variables as float32 arrays, keyed by name relative to the encoder's scope."""
    return encoder_tensors.to_variables(LAYOUTS[encoder.family].list_modules(encoder), tensors)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, errors.UserError) as error:
        raise errors.UserError(f"{path}: {error}; {_ADVICE}") from error


def _read_settings(path: str) -> dict[str, Any]:
    """Returns the settings in config.json, plus the settings in preprocessor_config.json that are needed."""
    settings = _read_json(path)
    family = settings.get("model_type")
    if family not in list(LAYOUTS):  # a list, because `family` may not be hashable
        expected = ", ".join(LAYOUTS)
        raise errors.UserError(f"{path}: model_type is {family}, expected one of {expected}; {_ADVICE}")
    defaults = LAYOUTS[family].PREPROCESSOR
    if set(defaults) <= set(settings):  # `save` adds these settings to the config
        return settings
    path = os.path.join(os.path.dirname(path), PREPROCESSOR_FILE)
    expected = frontend.FrontendConfig.sample_rate
    preprocessor = {**defaults, "sampling_rate": expected, **_read_json(path)}
    got = preprocessor["sampling_rate"]
    if got != expected:
        raise errors.UserError(f"{path}: sampling_rate is {got}, expected {expected}; choose another model")
    return {**settings, **{name: preprocessor[name] for name in defaults}}


def _read_json(path: str) -> dict[str, Any]:
    try:
        values = config_json.parse(files.read_text(path))
    except (OSError, ValueError) as error:
        raise errors.UserError(f"{path}: cannot be read ({error}); {_ADVICE}") from error
    return values if isinstance(values, dict) else {}


def _read_tensors(path: str, pattern: re.Pattern) -> dict[str, np.ndarray]:
    """Returns the tensors whose names begin with `pattern`, keyed by name without the matched part."""
    import safetensors

    try:
        with safetensors.safe_open(path, framework="np") as file:
            names = {_rename(name, pattern): name for name in file.keys() if pattern.match(name)}
            return {name: file.get_tensor(names[name]) for name in sorted(names)}
    except (OSError, TypeError, safetensors.SafetensorError) as error:
        raise errors.UserError(f"{path}: cannot be read ({error}); {_ADVICE}") from error


def _rename(name, pattern):
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return name[pattern.match(name).end() :]


def _hash(tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()
