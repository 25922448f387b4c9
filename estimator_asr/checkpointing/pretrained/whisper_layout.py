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
_BLOCK = {
    "self_attention/query": "self_attn.q_proj",
    "self_attention/key": "self_attn.k_proj",
    "self_attention/value": "self_attn.v_proj",
    "self_attention/output": "self_attn.out_proj",
    "attention_norm": "self_attn_layer_norm",
    "inner": "fc1",
    "outer": "fc2",
    "feed_forward_norm": "final_layer_norm",
}


def describe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of PretrainedEncoder from the settings; raises ValueError for one that does not fit."""
    return encoder_tensors.read_sizes(settings, _SIZES)


def list_modules(encoder: pretrained_encoder.PretrainedEncoder) -> dict[str, encoder_tensors.Module]:
    """Returns the modules by published name."""
    units, module = encoder.units, encoder_tensors.Module
    return {
        "conv1": module("convolution_0", (units, encoder.num_mel_bins, 3)),
        "conv2": module("convolution_1", (units, units, 3)),
        "layer_norm": module("output_norm", (units,)),
        **encoder_tensors.list_blocks(encoder, _BLOCK, "layers."),
    }
