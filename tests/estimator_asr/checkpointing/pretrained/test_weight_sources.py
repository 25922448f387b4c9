from __future__ import annotations

import os
import shutil

import new_models
import numpy as np
import pytest
import tiny_models

from estimator_asr.checkpointing.pretrained import weight_sources
from tfrecord_builder import errors


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    path = tmp_path_factory.mktemp("sources")
    tiny_models.make_acoustic_model(str(path / "am"))
    tiny_models.make_language_model(str(path / "lm"))
    return path


def test_a_directory_and_a_checkpoint_in_it_give_weights_and_the_tokens_of_their_rows(tmp_path, sources):
    model = new_models.make_new_model(str(tmp_path / "new"))
    for path in ("am", "am/model.ckpt-7", "am/model.ckpt-7.index"):
        source = weight_sources.open_checkpoint(model, str(sources / path))
        assert source.path == str(sources / "am" / "model.ckpt-7") and source.remarks == ()
        assert source.values["acoustic/ctc/bias"].shape == (1, 7)
        assert source.names["acoustic/ctc/bias"].names[:-1] == tiny_models.TOKENS.tokens


def test_a_checkpoint_in_a_folder_of_a_model_directory_belongs_to_it(tmp_path, sources):
    shutil.copytree(sources / "am", tmp_path / "am")
    os.makedirs(tmp_path / "am" / "best")
    for file in (tmp_path / "am").glob("model.ckpt-7.*"):
        shutil.move(file, tmp_path / "am" / "best")
    model = new_models.make_new_model(str(tmp_path / "new"))
    source = weight_sources.open_checkpoint(model, str(tmp_path / "am" / "best" / "model.ckpt-7"))
    assert "acoustic/ctc/bias" in source.values


def test_hashed_ngrams_are_only_taken_over_with_the_same_tokens(tmp_path, sources):
    same = new_models.make_new_model(str(tmp_path / "same"), "language", tokens=tiny_models.TOKENS)
    other = new_models.make_new_model(str(tmp_path / "other"), "language")
    assert "language/ngrams" in weight_sources.open_checkpoint(same, str(sources / "lm")).values
    source = weight_sources.open_checkpoint(other, str(sources / "lm"))
    assert not any(name.startswith("language/ngrams/") for name in source.values)  # as Adam of it
    assert "language/ngrams" not in source.values and "language/ngram_projection/kernel" in source.values
    assert source.remarks == (
        "language/ngrams starts anew: with other tokens its rows stand for other n-grams",
    )


def test_another_kind_of_model_is_refused(tmp_path, sources):
    model = new_models.make_new_model(str(tmp_path / "new"))
    with pytest.raises(
        errors.UserError, match="lm: holds the language model, expected the acoustic model; give"
    ):
        weight_sources.open_checkpoint(model, str(sources / "lm"))


def test_another_number_of_bins_is_refused(tmp_path, sources):
    model = new_models.make_new_model(str(tmp_path / "new"), num_mel_bins=12)
    said = "am: frontend has 20 bins, expected 12 as in .*new; build the data with the frontend of"
    with pytest.raises(errors.UserError, match=said):
        weight_sources.open_checkpoint(model, str(sources / "am"))


def test_another_frontend_of_as_many_bins_is_remarked(tmp_path, sources):
    model = new_models.make_new_model(str(tmp_path / "new"), hop_ms=20.0)
    source = weight_sources.open_checkpoint(model, str(sources / "am"))
    assert source.remarks == ("frontend differs: hop_ms is 20.0, in the source 10.0",)


def test_a_checkpoint_that_no_config_goes_with_is_refused(tmp_path, sources):
    for file in (sources / "am").glob("model.ckpt-7.*"):
        shutil.copy(file, tmp_path)
    model = new_models.make_new_model(str(tmp_path / "new"))
    with pytest.raises(errors.UserError, match="model.ckpt-7: there is no config.json beside the checkpoint"):
        weight_sources.open_checkpoint(model, str(tmp_path / "model.ckpt-7"))


def test_a_source_whose_checkpoint_and_tokens_disagree_is_refused(tmp_path, sources):
    shutil.copytree(sources / "am", tmp_path / "am")
    (tmp_path / "am" / "tokens.txt").write_text("<unk>\n", encoding="utf-8")
    model = new_models.make_new_model(str(tmp_path / "new"))
    with pytest.raises(errors.UserError, match="tokens.txt: sha256 is"):
        weight_sources.open_checkpoint(model, str(tmp_path / "am"))


def test_values_are_those_of_the_checkpoint(tmp_path, sources):
    model = new_models.make_new_model(str(tmp_path / "new"), "language")
    source = weight_sources.open_checkpoint(model, str(sources / "lm"))
    assert source.values["language/tokens"].shape == (6, 16) and np.any(source.values["language/tokens"])


def test_weights_that_are_no_numbers_are_refused():
    values = {"acoustic/a": np.ones(2), "acoustic/b": np.array([1, np.nan]), "acoustic/c": np.array([np.inf])}
    source = weight_sources.WeightSource("AM/model.ckpt-5", values, {}, ())
    said = "ckpt-5: acoustic/b has values that are no numbers, as 2 of 3 variables, expected numbers; give"
    with pytest.raises(errors.UserError, match=said):
        weight_sources.check_finite(source)


def test_weights_of_another_vocabulary_than_the_one_beside_them_are_refused(tmp_path, sources):
    other = new_models.make_new_model(str(tmp_path / "other"))
    for file in (sources / "am").glob("model.ckpt-7.*"):
        shutil.copy(file, other.path)
    model = new_models.make_new_model(str(tmp_path / "new"))
    with pytest.raises(errors.UserError, match="model.ckpt-7: output has 7 classes, expected 6"):
        weight_sources.open_checkpoint(model, os.path.join(other.path, "model.ckpt-7"))
