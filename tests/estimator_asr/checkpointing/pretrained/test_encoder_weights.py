"""Whisper's published files: what is read, what is saved, what is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import safetensors.numpy
import small_whisper

from estimator_asr.checkpointing.pretrained import encoder_weights
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
def test_names_with_and_without_the_model(tmp_path, prefix):
    _, tensors = encoder_weights.read(small_whisper.write(tmp_path, prefix=prefix))
    assert "layers.2.fc1.weight" in tensors and len(tensors) == len(small_whisper.make_tensors())


def test_a_saved_encoder_is_the_same_one_without_its_decoder(tmp_path):
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


def _break(directory, name, content):
    with open(os.path.join(directory, name), "wb") as file:
        file.write(content)


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("model.safetensors", b"\x10\0\0\0\0\0\0\0{}", "model.safetensors: cannot be read"),
        ("config.json", b"{", "config.json: cannot be read"),
        ("config.json", b"[]", "config.json: model_type is None, expected one of whisper"),
        (
            "config.json",
            b'{"model_type": "wavlm"}',
            "model_type is wavlm, expected one of whisper, hubert, wav2vec2; pass the directory of",
        ),
        (
            "config.json",
            json.dumps({**small_whisper.CONFIG, "d_model": "16"}).encode(),
            "config.json: d_model is 16, expected a whole number",
        ),
        (
            "config.json",
            json.dumps({**small_whisper.CONFIG, "encoder_layers": 4}).encode(),
            r"layers.3.self_attn.q_proj.weight is missing, expected \[16, 16\] by config.json",
        ),
        (
            "config.json",
            json.dumps({**small_whisper.CONFIG, "num_mel_bins": 128}).encode(),
            r"conv1.weight is \[16, 80, 3\], expected \[16, 128, 3\] by config.json; pass the directory",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, said):
    directory = small_whisper.write(tmp_path)
    _break(directory, name, content)
    with pytest.raises(errors.UserError, match=said):
        encoder_weights.read(directory)


def test_a_directory_without_weights_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="model.safetensors is missing; pass the directory of a Whis"):
        encoder_weights.read(str(tmp_path))
