from __future__ import annotations

import os
import shutil

import new_models
import numpy as np
import pytest
import tiny_models

from estimator_asr.checkpointing.pretrained import transfer, weight_sources
from tfrecord_builder import errors


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
    source = transfer.WeightSource("AM/model.ckpt-5", values, {}, ())
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


def test_a_keras_file_is_refused(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"\x89HDF")
    with pytest.raises(errors.UserError, match="a.h5: is not a TensorFlow checkpoint; pass a model"):
        open_source(tmp_path, tmp_path / "a.h5")
