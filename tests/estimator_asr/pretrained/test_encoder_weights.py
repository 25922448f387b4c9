"""Tests reading and saving the files of published encoders, and errors for unusable files."""

import json
import os
import pathlib

import numpy as np
import pytest
import safetensors.numpy
import small_hubert
import small_whisper

from estimator_asr.models import frozen_encoder
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder


def test_sizes_come_from_config_json(tmp_path):
    encoder, tensors = encoder_weights.read(small_whisper.write(tmp_path))
    assert (encoder.family, encoder.num_mel_bins, encoder.units) == ("whisper", 80, 16)
    assert (encoder.inner_units, encoder.heads, encoder.layers) == (32, 2, 3)
    expected = small_whisper.make_tensors()
    assert set(tensors) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(tensors[name], value)


@pytest.mark.parametrize("prefix", ["model.encoder.", "encoder."])
def test_tensor_names_with_and_without_the_prefix_model_are_read(tmp_path, prefix):
    _, tensors = encoder_weights.read(small_whisper.write(tmp_path, prefix=prefix))
    assert "layers.2.fc1.weight" in tensors and len(tensors) == len(small_whisper.make_tensors())


def test_a_saved_encoder_equals_the_published_one_without_its_decoder(tmp_path):
    source, target = small_whisper.write(tmp_path / "published"), tmp_path / "data"
    target.mkdir()
    encoder_weights.save(str(target), source)
    assert sorted(os.listdir(target)) == sorted(pretrained_encoder.FILES)
    assert encoder_weights.read(str(target))[0] == encoder_weights.read(source)[0]
    saved = safetensors.numpy.load_file(target / pretrained_encoder.FILES[1])
    assert set(saved) == {f"model.encoder.{name}" for name in small_whisper.make_tensors()}


def test_other_weights_have_another_sha256(tmp_path):
    one, _ = encoder_weights.read(small_whisper.write(tmp_path / "one"))
    two, _ = encoder_weights.read(small_whisper.write(tmp_path / "two", small_whisper.make_tensors(1)))
    assert one.sha256 != two.sha256


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("model.safetensors", b"\x10\0\0\0\0\0\0\0{}", "model.safetensors: cannot be read"),
        ("config.json", b"{", "config.json: cannot be read"),
        ("config.json", b"[" * 100_000, "config.json: cannot be read \\(it is nested too deeply"),
        ("config.json", b"[]", "config.json: model_type is None, expected one of whisper"),
        ("config.json", b'{"model_type": ["hubert"]}', "model_type is .*hubert.*, expected one of whisper"),
        (
            "config.json",
            b'{"model_type": "wavlm"}',
            "model_type is wavlm, expected one of whisper, hubert, wav2vec2; pass the directory of",
        ),
        (
            "config.json",
            json.dumps({**small_whisper.CONFIG, "d_model": "16"}).encode(),
            "config.json: d_model is 16, expected a positive whole number",
        ),
        (
            "config.json",
            json.dumps({**small_whisper.CONFIG, "encoder_layers": 4}).encode(),
            r"layers.3.self_attn.q_proj.weight is missing, but config.json needs shape \[16, 16\]",
        ),
        (
            "config.json",
            json.dumps({**small_whisper.CONFIG, "num_mel_bins": 128}).encode(),
            r"conv1.weight has shape \[16, 80, 3\], but config.json needs shape \[16, 128, 3\]; pass the dir",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, said):
    directory = small_whisper.write(tmp_path)
    pathlib.Path(directory, name).write_bytes(content)
    with pytest.raises(errors.UserError, match=said):
        encoder_weights.read(directory)


def test_a_directory_without_weights_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="model.safetensors is missing; pass the directory of a Whis"):
        encoder_weights.read(str(tmp_path))


def test_sizes_and_layout_of_hubert(tmp_path):
    encoder, tensors = encoder_weights.read(small_hubert.write(tmp_path, **small_hubert.LARGE))
    assert (encoder.family, encoder.num_mel_bins, encoder.units) == ("hubert", 80, 16)
    assert (encoder.inner_units, encoder.heads, encoder.layers) == (32, 2, 3)
    layout = pretrained_encoder.WaveformLayout((8, 8, 8, 8, 8, 8, 12), True, "layer", True, 8, 4, True)
    assert encoder.waveform == layout and encoder.is_pre_norm
    assert set(tensors) == set(small_hubert.make_tensors(**small_hubert.LARGE)) - {"masked_spec_embed"}


def test_a_saved_hubert_has_the_settings_of_its_preprocessor(tmp_path):
    raw = {"do_normalize": False, "sampling_rate": 16000}
    source, target = small_hubert.write(tmp_path / "published", preprocessor=raw), tmp_path / "data"
    target.mkdir()
    encoder_weights.save(str(target), source)
    assert sorted(os.listdir(target)) == sorted(pretrained_encoder.FILES)
    saved, _ = encoder_weights.read(str(target))
    assert saved == encoder_weights.read(source)[0] and not saved.waveform.do_normalize


@pytest.mark.parametrize("prefix", ["hubert.", "wav2vec2."])
def test_tensor_names_of_models_with_a_head_and_of_other_versions_of_pytorch_are_read(tmp_path, prefix):
    tensors = small_hubert.make_tensors()
    plain, _ = encoder_weights.read(small_hubert.write(tmp_path / "plain", tensors))
    conv = "encoder.pos_conv_embed.conv"
    for number, name in enumerate(("weight_g", "weight_v")):
        tensors[f"{conv}.parametrizations.weight.original{number}"] = tensors.pop(f"{conv}.{name}")
    renamed, _ = encoder_weights.read(small_hubert.write(tmp_path / "renamed", tensors, prefix=prefix))
    assert renamed == plain


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"conv_stride": [4, 2, 2, 2, 2, 2, 2]}, r"conv_stride is \[4, 2, 2, 2, 2, 2, 2\], expected \[5, 2,"),
        ({"hidden_act": "relu"}, "hidden_act is relu, expected gelu; pass the directory"),
        ({"conv_pos_batch_norm": True}, "conv_pos_batch_norm is True, expected False"),
        ({"hidden_size": None}, "hidden_size is None, expected a positive whole number"),
        ({"num_attention_heads": 3}, "num_attention_heads is 3, expected a divisor of hidden_size=16"),
        ({"conv_bias": "no"}, "WaveformLayout.conv_bias is 'no', expected true or false"),
        ({"feat_extract_norm": "batch"}, "feat_extract_norm is batch, expected group or layer"),
        ({"conv_dim": [8, 8]}, r"conv_dim is \[8, 8\], expected 7 numbers"),
        ({"num_conv_pos_embedding_groups": 5}, "num_conv_pos_embedding_groups is 5, expected a divi"),
        (small_hubert.LARGE, r"conv_layers.0.conv.bias is missing, but config.json needs shape \[8\]"),
        (
            {"num_conv_pos_embeddings": 128},
            r"conv.weight_v has shape \[16, 4, 8\], but config.json needs shape \[16, 4, 128\]",
        ),
        (
            {"num_hidden_layers": 4},
            r"layers.3.attention.q_proj.weight is missing, but config.json needs shape \[16, 16\]",
        ),
    ],
)
def test_settings_that_are_unsupported_or_do_not_match_the_tensors_are_refused(tmp_path, changes, said):
    directory = small_hubert.write(tmp_path, small_hubert.make_tensors(), **changes)
    file = "model.safetensors: .*" if "config.json" in said else "config.json: "
    with pytest.raises(errors.UserError, match=f"{file}{said}"):
        encoder_weights.read(directory)


def test_another_sample_rate_is_refused(tmp_path):
    directory = small_hubert.write(tmp_path, preprocessor={"sampling_rate": 8000})
    said = "preprocessor_config.json: sampling_rate is 8000, expected 16000; choose another model"
    with pytest.raises(errors.UserError, match=said):
        encoder_weights.read(directory)


def test_hubert_without_a_preprocessor_is_refused(tmp_path):
    directory = small_hubert.write(tmp_path)
    os.remove(os.path.join(directory, "preprocessor_config.json"))
    with pytest.raises(errors.UserError, match="preprocessor_config.json: cannot be read .*; pass the direc"):
        encoder_weights.read(directory)


def test_every_family_has_a_frontend_a_model_and_a_layout():
    assert set(pretrained_encoder.FAMILIES) == set(frozen_encoder.FAMILIES) == set(encoder_weights.LAYOUTS)
