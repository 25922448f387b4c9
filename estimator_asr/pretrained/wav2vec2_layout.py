"""Layout of HuBERT and wav2vec 2.0 as published in Hugging Face's format: settings and tensor names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from estimator_asr.models import layers, wav2vec2
from estimator_asr.pretrained import encoder_tensors
from tfrecord_builder.audio import frontend, pretrained_encoder
from tfrecord_builder.program import config_json

PREFIX = ""  # prefix of tensor names in the files that encoder_weights.save writes
# Prefix to remove from published encoder tensor names; it is empty if the model has no task head.
NAME = re.compile(r"((hubert|wav2vec2)\.)?(?=(feature_extractor|feature_projection|encoder)\.)")
PREPROCESSOR = {"do_normalize": True}  # settings read from preprocessor_config.json, and their defaults
_SIZES = {
    "units": "hidden_size",
    "inner_units": "intermediate_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
}
_BLOCK = ("layer_norm", "feed_forward.intermediate_dense", "feed_forward.output_dense", "final_layer_norm")
_FIXED = {  # the only values that models/wav2vec2.py supports
    "conv_kernel": list(wav2vec2.KERNEL_SIZES),
    "conv_stride": list(wav2vec2.STRIDES),
    "feat_extract_activation": "gelu",
    "hidden_act": "gelu",
    "layer_norm_eps": layers.PYTORCH_EPSILON,
    "feat_proj_layer_norm": True,
    "conv_pos_batch_norm": False,
    "adapter_attn_dim": None,
}


def describe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields for PretrainedEncoder; raises ValueError or UserError if a setting is not supported."""
    for name, expected in _FIXED.items():
        if settings.get(name, expected) != expected:
            raise ValueError(f"{name} is {settings[name]}, expected {expected}")
    sizes = encoder_tensors.read_sizes(settings, _SIZES)
    fields = [field.name for field in dataclasses.fields(pretrained_encoder.WaveformLayout)]
    values = {name: settings[name] for name in fields if name in settings}
    layout = config_json.from_json_dict(pretrained_encoder.WaveformLayout, values)
    _check(layout, sizes["units"])
    return {**sizes, "num_mel_bins": frontend.FrontendConfig.num_mel_bins, "waveform": layout}


def list_modules(encoder: pretrained_encoder.PretrainedEncoder) -> dict[str, encoder_tensors.Module]:
    """Returns the encoder's modules, keyed by published name."""
    units, layout, module = encoder.units, encoder.waveform, encoder_tensors.Module
    modules, num_inputs = {}, 1
    for number, (channels, width) in enumerate(zip(layout.conv_dim, wav2vec2.KERNEL_SIZES)):
        name, scope = f"feature_extractor.conv_layers.{number}", f"convolution_{number}"
        modules[f"{name}.conv"] = module(scope, (channels, num_inputs, width), layout.conv_bias)
        if number == 0 or layout.feat_extract_norm == "layer":
            modules[f"{name}.layer_norm"] = module(f"{scope}/norm", (channels,))
        num_inputs = channels
    shape = (units, units // layout.num_conv_pos_embedding_groups, layout.num_conv_pos_embeddings)
    return {
        **modules,
        "feature_projection.layer_norm": module("projection_norm", (num_inputs,)),
        "feature_projection.projection": module("projection", (units, num_inputs)),
        "encoder.pos_conv_embed.conv": module("positions", shape),
        "encoder.layer_norm": module("output_norm" if encoder.is_pre_norm else "input_norm", (units,)),
        **encoder_tensors.list_blocks(encoder, "encoder.layers.", "attention", _BLOCK),
    }


def _check(layout, units):
    if layout.feat_extract_norm not in ("group", "layer"):
        raise ValueError(f"feat_extract_norm is {layout.feat_extract_norm}, expected group or layer")
    if len(layout.conv_dim) != len(wav2vec2.STRIDES):
        raise ValueError(f"conv_dim is {list(layout.conv_dim)}, expected {len(wav2vec2.STRIDES)} numbers")
    groups = layout.num_conv_pos_embedding_groups
    if groups < 1 or units % groups:
        raise ValueError(f"num_conv_pos_embedding_groups is {groups}, expected a divisor of {units}")
