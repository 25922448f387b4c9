"""Tests reading Whisper's decoder for tune, and errors for files that do not fit."""

import dataclasses
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import small_whisper
import tiny_models

from estimator_asr.pretrained import decoder_weights
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    return tiny_models.make_language_model(str(tmp_path_factory.mktemp("language") / "lm"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("acoustic") / "am")
    return tiny_models.make_pretrained_model(path, "whisper", layers=(1, 3))


@pytest.fixture
def acoustic(made, tmp_path):
    """Returns a copy of the model; a test may change the files of the model and its encoder."""
    for suffix in ("", "-whisper"):
        shutil.copytree(f"{made.path}{suffix}", tmp_path / f"am{suffix}")
    return dataclasses.replace(made, path=str(tmp_path / "am"))


def refuse(path, acoustic, language, said):
    """Checks that the error message starts with `said`; ... stands for any text."""
    with pytest.raises(errors.UserError, match=".*".join(map(re.escape, said.split("...")))) as refused:
        decoder_weights.compile_decoder(str(path), acoustic, language)
    assert str(refused.value).startswith(said.split("...")[0])


def test_characters_have_the_token_ids_of_their_readings(acoustic, language):
    decoder = decoder_weights.compile_decoder(f"{acoustic.path}-whisper", acoustic, language)
    read = dict(zip(decoder.characters, decoder.readings.tolist()))
    assert read == {"好": [1], "郝": [1], "吗": [2], "你": [3], "是": [4], "天": [5]}
    assert "天".encode()[:1] in decoder.token_texts and "你好".encode() in decoder.token_texts
    num_tokens = len(decoder.token_texts)
    assert decoder.weights["embeddings"].shape == (num_tokens + 1, 16)  # one more for the end of the text
    assert {each.dtype for each in decoder.weights.values()} == {np.dtype("float16")}


@pytest.mark.long
def test_models_that_do_not_read_the_last_block_of_this_encoder_are_refused(acoustic, language, tmp_path):
    lower = tiny_models.make_pretrained_model(str(tmp_path / "lower"), "whisper", layers=(1, 2))
    problem = "but the decoder needs the outputs of the last block"
    said = f"{lower.path}: the model reads blocks 1,2 of a whisper encoder, {problem}"
    refuse(f"{acoustic.path}-whisper", lower, language, said)
    plain = tiny_models.make_acoustic_model(str(tmp_path / "plain"))
    refuse("W", plain, language, f"{plain.path}: the model reads audio features, {problem}")
    other = small_whisper.write(tmp_path / "other", small_whisper.make_tensors(seed=5))
    said = f"{other}: the sha256 of the encoder is ... as in {acoustic.path}; "
    refuse(other, acoustic, language, said)


def test_tokens_that_are_parts_of_syllables_are_refused(tmp_path, language):
    parts = tiny_models.make_acoustic_model(str(tmp_path / "parts"), token_type="initial_final")
    said = f"{parts.path}: token type is initial_final, expected one of syllable, toneless"
    refuse("W", parts, language, said)


@pytest.mark.parametrize("content", ["", "[]", '{"added_tokens": []}', '{"model": 3, "added_tokens": []}'])
def test_a_damaged_tokenizer_file_is_named(acoustic, language, content):
    file = pathlib.Path(f"{acoustic.path}-whisper", "tokenizer.json")
    file.write_text(content, encoding="utf-8")
    said = f"{file}: cannot be read (...pass the same directory as in encode --weights"
    refuse(file.parent, acoustic, language, said)
    file.unlink()
    refuse(file.parent, acoustic, language, said)


def test_a_decoder_tensor_of_another_shape_is_named(acoustic, language):
    file = pathlib.Path(f"{acoustic.path}-whisper", "config.json")
    settings = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**settings, "decoder_ffn_dim": 20}), encoding="utf-8")
    said = "layers.0.fc1.weight has shape [24, 16], but config.json needs shape [20, 16]"
    refuse(file.parent, acoustic, language, f"{file.parent}/model.safetensors: {said}")
    file.write_text(json.dumps({**settings, "decoder_layers": None}), encoding="utf-8")
    said = f"{file}: decoder_layers is None, expected a positive whole number"
    refuse(file.parent, acoustic, language, said)


@pytest.mark.long
def test_letters_become_capitals_with_the_ids_of_their_tokens(tmp_path, language):
    acoustic = tiny_models.make_pretrained_model(str(tmp_path / "am"), "whisper", layers=(3,))
    letters = vocabulary.Vocabulary(["<unk>", "a", "hao3", "p"])
    decoder = decoder_weights.compile_decoder(
        f"{acoustic.path}-whisper", dataclasses.replace(acoustic, tokens=letters), language
    )
    read = dict(zip(decoder.characters, decoder.readings.tolist()))
    assert read == {"A": [1], "好": [2], "郝": [2], "P": [3]}


@pytest.mark.parametrize(("token_type", "letter"), [("syllable", "p"), ("toneless", "P")])
def test_digits_have_the_ids_of_their_tokens(acoustic, language, token_type, letter):
    acoustic = dataclasses.replace(
        acoustic,
        tokens=vocabulary.Vocabulary(["<unk>", "3", letter]),
        config=dataclasses.replace(acoustic.config, token_type=token_type),
    )
    decoder = decoder_weights.compile_decoder(f"{acoustic.path}-whisper", acoustic, language)
    assert dict(zip(decoder.characters, decoder.readings.tolist())) == {"3": [1], "P": [2]}


def test_a_tokenizer_with_more_tokens_than_the_decoder_is_refused(acoustic, language):
    file = pathlib.Path(f"{acoustic.path}-whisper", "tokenizer.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    content["added_tokens"][0]["id"] = 9999
    file.write_text(json.dumps(content), encoding="utf-8")
    refuse(file.parent, acoustic, language, f"{file}: ...it has token ids beyond the decoder's 2")
