from __future__ import annotations

import os
import shutil

import cnn_weights
import h5py
import new_models
import numpy as np
import pytest
import tiny_models

from estimator_asr.checkpointing.pretrained import weight_sources
from tfrecord_builder import errors

WEIGHTS = cnn_weights.make_weights(6)  # 5 classes: 4 tokens and the blank


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    path = tmp_path_factory.mktemp("sources")
    tiny_models.make_acoustic_model(str(path / "am"))
    tiny_models.make_language_model(str(path / "lm"))
    return path


def open_source(tmp_path, path, kind="acoustic", **settings):
    settings = {"warm_start_from": str(path), **settings}
    return weight_sources.open_source(new_models.make_new_model(str(tmp_path / "new"), kind, **settings))


@pytest.mark.parametrize("path", ["am", "am/model.ckpt-7", "am/model.ckpt-7.index"])
def test_a_directory_and_a_checkpoint_in_it_have_weights_and_the_tokens_of_their_rows(
    tmp_path, sources, path
):
    source = open_source(tmp_path, sources / path)
    assert source.path == str(sources / "am" / "model.ckpt-7") and source.remarks == ()
    assert source.values["acoustic/ctc/bias"].shape == (1, 7)
    assert source.names["acoustic/ctc/bias"].names[:-1] == tiny_models.TOKENS.tokens


def test_a_checkpoint_in_a_folder_of_a_model_directory_belongs_to_it(tmp_path, sources):
    shutil.copytree(sources / "am", tmp_path / "am")
    os.makedirs(tmp_path / "am" / "best")
    for file in (tmp_path / "am").glob("model.ckpt-7.*"):
        shutil.move(file, tmp_path / "am" / "best")
    assert "acoustic/ctc/bias" in open_source(tmp_path, tmp_path / "am" / "best" / "model.ckpt-7").values


def test_hashed_ngrams_are_copied_only_with_the_same_tokens(tmp_path, sources):
    same = open_source(tmp_path / "same", sources / "lm", "language", tokens=tiny_models.TOKENS)
    assert "language/ngrams" in same.values and np.any(same.values["language/tokens"])
    source = open_source(tmp_path, sources / "lm", "language")
    assert not any(name.startswith("language/ngrams/") for name in source.values)  # slots of the optimizer
    assert "language/ngrams" not in source.values and "language/ngram_projection/kernel" in source.values
    assert source.remarks == (
        "language/ngrams is initialised: with other tokens its rows belong to other n-grams",
    )


def test_another_kind_of_model_is_refused(tmp_path, sources):
    said = "lm: holds the language model, expected the acoustic model; choose"
    with pytest.raises(errors.UserError, match=said):
        open_source(tmp_path, sources / "lm")


def test_another_number_of_mel_bins_is_refused(tmp_path, sources):
    said = "am: frontend has 20 mel bins, expected 12 as in .*new; build the data with that frontend"
    with pytest.raises(errors.UserError, match=said):
        open_source(tmp_path, sources / "am", num_mel_bins=12)


def test_another_frontend_with_as_many_bins_is_remarked(tmp_path, sources):
    remarks = open_source(tmp_path, sources / "am", hop_ms=20.0).remarks
    assert remarks == ("frontend differs: hop_ms is 20.0, in the source 10.0",)


def test_a_checkpoint_without_config_json_is_refused(tmp_path, sources):
    for file in (sources / "am").glob("model.ckpt-7.*"):
        shutil.copy(file, tmp_path)
    with pytest.raises(errors.UserError, match="model.ckpt-7: config.json is missing beside the checkpoint"):
        open_source(tmp_path, tmp_path / "model.ckpt-7")


def test_a_source_with_changed_tokens_is_refused(tmp_path, sources):
    shutil.copytree(sources / "am", tmp_path / "am")
    (tmp_path / "am" / "tokens.txt").write_text("<unk>\n", encoding="utf-8")
    with pytest.raises(errors.UserError, match="tokens.txt: sha256 is"):
        open_source(tmp_path, tmp_path / "am")


def test_non_finite_weights_are_refused(tmp_path, sources, monkeypatch):
    values = {"acoustic/a": np.ones(2), "acoustic/b": np.array([1, np.nan]), "acoustic/c": np.array([np.inf])}
    source = weight_sources.WeightSource("AM/model.ckpt-5", values, {}, ())
    monkeypatch.setattr(weight_sources, "_open_checkpoint", lambda model, path: source)
    said = "ckpt-5: 2 of 3 variables contain NaN or Inf, the first is acoustic/b; choose an earlier"
    with pytest.raises(errors.UserError, match=said):
        open_source(tmp_path, sources / "am")


def test_weights_of_another_vocabulary_than_the_one_beside_them_are_refused(tmp_path, sources):
    other = new_models.make_new_model(str(tmp_path / "other"))
    for file in (sources / "am").glob("model.ckpt-7.*"):
        shutil.copy(file, other.path)
    with pytest.raises(errors.UserError, match="model.ckpt-7: output has 7 classes, expected 6"):
        open_source(tmp_path, os.path.join(other.path, "model.ckpt-7"))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("keras") / "a.h5")
    layers = dict.fromkeys(name.split("/")[0] for name in WEIGHTS)
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = list(layers)
        for layer in layers:
            names = [name for name in WEIGHTS if name.startswith(f"{layer}/")]
            file.create_group(layer).attrs["weight_names"] = names
            for name in names:
                file[layer][name] = WEIGHTS[name]
    return path


def open_keras(tmp_path, file, tokens="a1\nb1\nc1\nd1\n", encoding="utf-8", kind="acoustic", encoder="cnn"):
    path = tmp_path / "dict.txt"
    path.write_bytes(tokens.encode(encoding))
    return open_source(tmp_path, file, kind, acoustic={"encoder": encoder}, warm_start_tokens=str(path))


@pytest.mark.parametrize(
    "tokens", ["a1\nb1\nc1\nd1\n", "a1\t阿啊\nb1\t\nc1\td\nd1\tx", "\ufeffa1\r\nb1\r\n\r\nc1\r\nd1\r\n"]
)
def test_tokens_are_the_first_column_of_the_lines(tmp_path, file, tokens):
    source = open_keras(tmp_path, file, tokens)
    assert source.names["acoustic/ctc/bias"].names[:-1] == ("a1", "b1", "c1", "d1")
    assert source.path == file and source.values["acoustic/ctc/bias"].shape == (1, 5)


@pytest.mark.parametrize("tokens, count", [("a1\nb1\nc1\n", 3), ("a1\nb1\nc1\nd1\n_\n", 5)])
def test_another_number_of_tokens_is_refused(tmp_path, file, tokens, count):
    said = (
        f"dict.txt: has {count} tokens, expected 4, because the output of .*a.h5 has 5 classes and the last"
    )
    with pytest.raises(errors.UserError, match=said):
        open_keras(tmp_path, file, tokens)


def test_tokens_that_are_not_utf8_are_refused(tmp_path, file):
    with pytest.raises(errors.UserError, match="dict.txt: byte 3 is not UTF-8, expected tokens; convert"):
        open_keras(tmp_path, file, "a1\t阿\nb1\nc1\nd1\n", encoding="gbk")


@pytest.mark.parametrize(
    "tokens, said",
    [
        (None, "train: --warm_start_tokens is missing, expected with .*a.h5; pass"),
        ("no.txt", r"no.txt: cannot be read \(No such file"),
    ],
)
def test_missing_tokens_are_refused(tmp_path, file, tokens, said):
    with pytest.raises(errors.UserError, match=said):
        open_source(tmp_path, file, acoustic={"encoder": "cnn"}, warm_start_tokens=tokens)


@pytest.mark.parametrize(
    "kind, encoder, said",
    [("language", "cnn", "language"), ("acoustic", "conformer", "acoustic with --encoder=conformer")],
)
def test_a_model_of_other_layers_is_refused(tmp_path, file, kind, encoder, said):
    with pytest.raises(
        errors.UserError, match=f"a.h5: is a Keras model and the model to train is {said}, expected"
    ):
        open_keras(tmp_path, file, kind=kind, encoder=encoder)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{}")
    with pytest.raises(
        errors.UserError, match="config.json: cannot be read as HDF5 .*, expected a complete Keras"
    ):
        open_keras(tmp_path, str(path), encoder="conformer")
