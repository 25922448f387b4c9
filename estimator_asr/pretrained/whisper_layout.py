"""Layout of Whisper as published in Hugging Face's format: sizes in config.json, and tensor names."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from typing import Any

from estimator_asr.pretrained import encoder_tensors
from tfrecord_builder.audio import pretrained_encoder

PREFIX = "model.encoder."  # prefix of tensor names in the files that encoder_weights.save writes
NAME = re.compile(r"(model\.)?encoder\.")  # prefix to remove from the published tensor names
DECODER_NAME = re.compile(r"(model\.)?decoder\.")
PREPROCESSOR: dict[str, Any] = {}  # no settings are read from preprocessor_config.json
_SIZES = {
    "num_mel_bins": "num_mel_bins",
    "units": "d_model",
    "inner_units": "encoder_ffn_dim",
    "heads": "encoder_attention_heads",
    "layers": "encoder_layers",
}
_DECODER_SIZES = {
    "units": "d_model",
    "inner_units": "decoder_ffn_dim",
    "heads": "decoder_attention_heads",
    "layers": "decoder_layers",
    "num_tokens": "vocab_size",
    "num_positions": "max_target_positions",
}
_BLOCK = ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")


def describe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields for PretrainedEncoder; raises ValueError if a size is invalid."""
    return encoder_tensors.read_sizes(settings, _SIZES)


def list_modules(encoder: pretrained_encoder.PretrainedEncoder) -> dict[str, encoder_tensors.Module]:
    """Returns the encoder's modules, keyed by published name."""
    return {
        "conv1": encoder_tensors.Module("convolution_0", (encoder.units, encoder.num_mel_bins, 3)),
        "conv2": encoder_tensors.Module("convolution_1", (encoder.units, encoder.units, 3)),
        "layer_norm": encoder_tensors.Module("output_norm", (encoder.units,)),
        **encoder_tensors.list_blocks(encoder, "layers.", "self_attn", _BLOCK),
    }


def describe_decoder(settings: Mapping[str, Any]) -> types.SimpleNamespace:
    """Returns the sizes of the decoder: units, inner_units, heads, layers, num_tokens and num_positions.

    Raises ValueError if a size is invalid.
    """
    return types.SimpleNamespace(**encoder_tensors.read_sizes(settings, _DECODER_SIZES))


def list_decoder_modules(decoder: types.SimpleNamespace) -> dict[str, encoder_tensors.Module]:
    """Returns the decoder's modules, except the embedding tables, keyed by published name."""
    modules = {
        "layer_norm": encoder_tensors.Module("output_norm", (decoder.units,)),
        **encoder_tensors.list_blocks(decoder, "layers.", "self_attn", _BLOCK),
    }
    for number in range(decoder.layers):
        theirs, ours = f"layers.{number}.encoder_attn", f"block_{number + 1}"
        modules |= encoder_tensors.list_projections(theirs, f"{ours}/cross_attention", decoder.units)
        modules[f"{theirs}_layer_norm"] = encoder_tensors.Module(f"{ours}/memory_norm", (decoder.units,))
    return modules
