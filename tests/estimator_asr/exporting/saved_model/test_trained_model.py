"""A model directory is opened with its selected checkpoint; unsuitable models are refused."""

import os
import shutil

import cascade_reference
import numpy as np
import pytest
import tiny_models

from estimator_asr.experiment import config, decoding_files
from estimator_asr.exporting.saved_model import trained_model
from estimator_asr.training.checkpointing import best_checkpoints, evaluation_log
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, vocabulary
from tfrecord_builder.storage import locks


@pytest.fixture
def acoustic_dir(tiny_export, tmp_path):
    return shutil.copytree(tiny_export.acoustic_dir, str(tmp_path / "am"))


def test_latest_checkpoint_is_opened_if_there_is_no_best_one(acoustic_dir):
    trained = trained_model.open_trained_model(acoustic_dir)
    assert (trained.model.config.model, trained.global_step) == ("acoustic", 7)
    assert trained.checkpoint == os.path.join(acoustic_dir, "model.ckpt-7")


@pytest.mark.long
def test_best_weights_are_preferred(acoustic_dir, tmp_path):
    better = tiny_models.make_acoustic_model(str(tmp_path / "better"), seed=1)
    best = best_checkpoints.prefix(acoustic_dir, 5)
    os.makedirs(os.path.dirname(best))
    for suffix in ("index", "data-00000-of-00001"):
        shutil.copy(os.path.join(better.path, f"model.ckpt-7.{suffix}"), f"{best}.{suffix}")
    registry = os.path.join(os.path.dirname(best), best_checkpoints.REGISTRY_FILE)
    evaluation_log.write_rows(registry, [best_checkpoints.KeptCheckpoint(5, 0.1, {})])
    trained = trained_model.open_trained_model(acoustic_dir)
    assert trained.checkpoint == best
    fbank = tiny_models.extract(tiny_models.make_waveform(30000, seed=0))
    batch = {"fbank": fbank[None], "num_frames": [len(fbank)]}
    expected = trained_model.build_recogniser(trained_model.open_trained_model(better.path)).run(batch)
    assert trained_model.build_recogniser(trained).run(batch) == expected


def test_a_model_without_a_checkpoint_is_refused(acoustic_dir):
    os.remove(os.path.join(acoustic_dir, "checkpoint"))
    with pytest.raises(errors.UserError, match=r"am has no checkpoint; train first"):
        trained_model.open_trained_model(acoustic_dir)


@pytest.mark.long
def test_a_checkpoint_of_another_vocabulary_size_is_refused(acoustic_dir, tmp_path):
    larger = vocabulary.Vocabulary([*tiny_models.TOKENS.tokens, "yi1"])
    other = tiny_models.make_acoustic_model(str(tmp_path / "other"), larger)
    for name in os.listdir(other.path):
        if name.startswith("model.ckpt"):
            shutil.copy(os.path.join(other.path, name), acoustic_dir)
    with pytest.raises(errors.UserError, match=r"layer has 8 classes instead of 7 .*another vocabulary"):
        trained_model.open_trained_model(acoustic_dir)


def test_a_language_recogniser_reads_token_ids(trained_models):
    language = trained_model.build_recogniser(trained_models[1])
    result = language.run({"token_ids": [[3, 4], [0, 0], [4, 0]], "num_tokens": [2, 0, 1]})
    assert result["transcript"] == ["气字", "", "字"]


@pytest.mark.long
@pytest.mark.parametrize("has_language", [True, False])
def test_a_cascade_equals_estimators_and_numpy(tiny_export, trained_models, has_language):
    acoustic, language = trained_models[0], trained_models[1] if has_language else None
    fbanks = [tiny_models.extract(waveform) for *_, waveform in tiny_export.utterances.values()]
    model = trained_model.build_recogniser(acoustic, language)
    for fbank, expected in zip(fbanks, cascade_reference.recognise(acoustic, language, fbanks)):
        batch = {"fbank": fbank[None], "num_frames": [len(fbank)]}
        result = {name: value for name, (value,) in model.run(batch).items()}
        assert (result["transcript"], result["pinyin"]) == (expected["transcript"], expected["pinyin"])
        for name in ("acoustic_score", "language_score"):
            assert result[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-4)
        texts, scores = zip(*((each["transcript"], each["score"]) for each in expected["n_best"]))
        assert sorted(each["transcript"] for each in result["n_best"]) == sorted(texts)
        np.testing.assert_allclose([each["score"] for each in result["n_best"]], scores, rtol=1e-4, atol=1e-4)
    model.session.close()


def test_vocabulary_file_that_was_changed_is_refused(acoustic_dir):
    tiny_models.OTHER_TOKENS.save(os.path.join(acoustic_dir, dataset_info.TOKENS_FILE))
    message = r"tokens\.txt: sha256 is \w+, expected \w+ as in config\.json"
    with pytest.raises(errors.UserError, match=message):
        trained_model.open_trained_model(acoustic_dir)


def test_an_opened_checkpoint_is_locked_until_the_model_is_dropped(acoustic_dir):
    trained = trained_model.open_trained_model(acoustic_dir)
    assert not locks.remove_unless_read(f"{trained.checkpoint}.index", lambda: None)
    checkpoint = trained.checkpoint
    del trained
    assert locks.remove_unless_read(f"{checkpoint}.index", lambda: None)


def test_a_checkpoint_without_its_files_is_refused(acoustic_dir):
    os.remove(os.path.join(acoustic_dir, "model.ckpt-7.index"))
    message = r"model.ckpt-7: checkpoint cannot be read \(its .index file is missing\)"
    with pytest.raises(errors.UserError, match=message):
        trained_model.open_trained_model(acoustic_dir)


def test_if_a_checkpoint_is_deleted_while_it_is_opened_the_next_one_is_opened(acoustic_dir, monkeypatch):
    latest = os.path.join(acoustic_dir, "model.ckpt-7")
    answers = [os.path.join(acoustic_dir, "model.ckpt-6"), latest]
    monkeypatch.setattr(trained_model.checkpoints, "latest", lambda path: answers.pop(0))
    assert trained_model.open_trained_model(acoustic_dir).checkpoint == latest


@pytest.mark.parametrize("decoding", ["toy", None])
def test_an_unknown_decoder_lists_the_choices(acoustic_dir, decoding):
    """The decoder's name was passed or, if None was passed, comes from the directory."""
    decoding_files.save(acoustic_dir, decoding_files.Decoding(config.DecodeConfig(decoding="beem")))
    with pytest.raises(errors.UserError) as refused:
        trained_model.open_trained_model(acoustic_dir, decoding)
    problem = "--decoding is toy" if decoding else f"{acoustic_dir}/decoding.json: decoding is beem"
    assert str(refused.value) == f"{problem}, expected one of beam, greedy"
