"""Whisper's encoder as its authors and Hugging Face publish it: sizes in config.json, names of tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from estimator_asr.checkpointing.pretrained import encoder_tensors
from tfrecord_builder.audio import pretrained_encoder

PREFIX = "model.encoder."  # of the names that are saved
NAME = re.compile(r"(model\.)?encoder\.")  # start of the names that are read, which is left out
PREPROCESSOR: dict[str, Any] = {}  # what is read of preprocessor_config.json, and defaults
_SIZES = {
    "num_mel_bins": "num_mel_bins",
    "units": "d_model",
    "inner_units": "encoder_ffn_dim",
    "heads": "encoder_attention_heads",
    "layers": "encoder_layers",
}
_BLOCK = ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")


def describe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of PretrainedEncoder; raises ValueError for a setting that does not fit."""
    return encoder_tensors.read_sizes(settings, _SIZES)


def list_modules(encoder: pretrained_encoder.PretrainedEncoder) -> dict[str, encoder_tensors.Module]:
    """Returns the modules by published name."""
    return {
        "conv1": encoder_tensors.Module("convolution_0", (encoder.units, encoder.num_mel_bins, 3)),
        "conv2": encoder_tensors.Module("convolution_1", (encoder.units, encoder.units, 3)),
        "layer_norm": encoder_tensors.Module("output_norm", (encoder.units,)),
        **encoder_tensors.list_blocks(encoder, "layers.", "self_attn", _BLOCK),
    }
