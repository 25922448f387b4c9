from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
import small_records
import task_models

from estimator_asr.experiment import config, experiment, task_spec, training_config
from estimator_asr.inputs import splits
from estimator_asr.monitoring.diagnostics import overfit
from tfrecord_builder import errors

OPTIMIZER = training_config.OptimizerConfig(learning_rate=0.0025, warmup_epochs=3)
COMMAND = "python -m estimator_asr.train --data_dir=DATA --model_dir=AM"


def make_data(tmp_path, kind, **sections):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", 10)])
    settings = {
        "acoustic": task_models.ACOUSTIC,
        "language": task_models.LANGUAGE,
        "optimizer": OPTIMIZER,
        "train": training_config.TrainConfig(model=kind),
        "watch": training_config.WatchConfig(overfit_batches=1),
    }
    return experiment.ExperimentConfig.for_data(info, **{**settings, **sections}), [info], [path]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["acoustic", "language"])
def test_ten_utterances_are_memorised_in_seconds_and_no_file_is_written(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings, infos, dirs = make_data(tmp_path, kind)
    said = overfit.run(settings, infos, dirs, COMMAND)
    assert " utterances memorised after " in said and "model, loss and optimizer can learn" in said
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.long
def test_contradicting_labels_are_named_as_the_cause(tmp_path, monkeypatch):
    """The same features with different labels."""
    same = small_records._make_features(["hao3"] * 3, small_records.FRONTEND.num_bins, seed=1)
    monkeypatch.setattr(small_records, "_make_features", lambda *args, **kwargs: same)
    settings, infos, dirs = make_data(tmp_path, "acoustic")
    with pytest.raises(errors.UserError) as raised:
        overfit.run(settings, infos, dirs, COMMAND, seconds=1.0)
    said = str(raised.value)
    assert said.startswith("train: --overfit_batches=1: ") and "utterances not memorised after" in said
    assert "have the same input as another utterance but different labels" in said


def test_a_damaged_shard_is_one_sentence(tmp_path):
    settings, infos, dirs = make_data(tmp_path, "language")
    with open(infos[0].shard_paths(dirs[0], "train")[0], "r+b") as file:
        file.seek(40)
        file.write(b"\0\1\2")
    with pytest.raises(errors.UserError, match="a shard of split train is damaged"):
        overfit.run(settings, infos, dirs, COMMAND)


def test_a_learning_rate_that_is_too_high_is_named_as_the_cause(tmp_path):
    wild = dataclasses.replace(OPTIMIZER, learning_rate=1e30, clip_norm=0.0)
    settings, infos, dirs = make_data(tmp_path, "language", optimizer=wild)
    with pytest.raises(errors.UserError, match="learning rate is too high; try .*=1e[+]29"):
        overfit.run(settings, infos, dirs, COMMAND, seconds=5.0)


def test_regularisation_is_switched_off(tmp_path):
    wild = training_config.OptimizerConfig(
        learning_rate=0.01,
        learning_rate_batch_size=10,
        schedule="inverse_sqrt",
        gradient_accumulation_steps=4,
    )
    settings, infos, dirs = make_data(
        tmp_path, "acoustic", optimizer=wild, acoustic=config.AcousticConfig(acoustic_dropout=0.3)
    )
    simple = overfit.simplify(settings, splits.read_split(infos, dirs, "train", task_spec.ACOUSTIC))
    assert (simple.acoustic.acoustic_dropout, simple.acoustic.label_smoothing) == (0, 0)
    language = simple.language
    assert (language.language_dropout, language.ngram_dropout, language.token_noise) == (0, 0, 0)
    assert not simple.input.spec_augment
    assert (simple.optimizer.schedule, simple.optimizer.gradient_accumulation_steps) == ("step", 1)
    # Ten utterances in batches of one length each (eight of them): the rate after the warm-up.
    num_lengths = len(infos[0].splits["train"].frame_lengths)
    assert simple.optimizer.learning_rate == pytest.approx(0.01 * 10 / num_lengths / 10)
    assert simple.optimizer.learning_rate_batch_size == 0
    assert simple.acoustic.encoder_layers == settings.acoustic.encoder_layers


def test_batches_become_about_ten_utterances(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", 60)])
    settings, _, _ = make_data(tmp_path / "other", "language")
    simple = overfit.simplify(settings, splits.read_split([info], [path], "train", task_spec.LANGUAGE))
    assert (simple.input.batch_tokens, simple.input.num_buckets) == (30, 1)  # ten of the longest


def test_every_batch_must_have_a_low_loss_and_no_errors():
    known = {"avg-loss": 0.049, "token-error-rate": 0.0}
    assert overfit.is_learned([known, known], 2, "token-error-rate")
    assert not overfit.is_learned([known], 2, "token-error-rate")
    for unknown in ({**known, "avg-loss": 0.05}, {**known, "token-error-rate": 0.01}):
        assert not overfit.is_learned([unknown, known], 2, "token-error-rate")
        assert overfit.is_learned([unknown, known], 1, "token-error-rate")
    half = {**known, "token-error-rate": 0.5}
    assert overfit.is_learned([{**half, "unknown-fraction": 0.5}], 1, "token-error-rate")
    assert not overfit.is_learned([{**half, "unknown-fraction": 0.25}], 1, "token-error-rate")


def test_labels_that_are_not_in_the_loss_may_be_wrong():
    """Of seven characters, two are in an utterance that does not pair them with tokens, one is unknown."""
    values = {
        "avg-loss": 0.01,
        "character-error-rate": float(np.float32(3) / np.float32(7)),
        "unknown-fraction": float(np.float32(1) / np.float32(7)),
        "used-label-fraction": float(np.float32(5) / np.float32(7)),
    }
    assert overfit.is_learned([values], 1, "character-error-rate")
    assert not overfit.is_learned([{**values, "character-error-rate": 4 / 7}], 1, "character-error-rate")


TRAIN = "python -m estimator_asr.train --data_dir=DATA,MORE --model_dir=AM --overfit_batches 1"
AGAIN = f"{TRAIN} --learning_rate="


def make_batch(labels=((1, 2), (3, 4), (5, 6))):
    fbank = np.arange(3 * 4 * 2, dtype=np.float32).reshape([3, 4, 2])
    features = {"fbank": fbank, "num_frames": np.array([4, 4, 3])}
    return features, {"token_ids": np.array(labels), "num_tokens": np.array([2, 2, 2])}


def make_result(losses, *, batch=None, is_learned=False, **metrics):
    shown = {"token-error-rate": 1.0, **{tag.replace("_", "-"): value for tag, value in metrics.items()}}
    rows = [{"avg-loss": loss, **shown} for loss in losses]
    return overfit.OverfitResult(task_spec.ACOUSTIC, [batch or make_batch()], rows, 31.4, is_learned)


def describe(*args, **kwargs):
    return overfit.describe(make_result(*args, **kwargs), TRAIN, 0.003, "DATA,MORE")


FALLING = [10 * 0.95**step for step in range(100)]
STUCK = [5.0] * 20 + [2.0] * 80


def test_success_shows_seconds_and_steps():
    assert describe([3.0, 0.04], is_learned=True, token_error_rate=0.0) == (
        "3 utterances memorised after 31 s (2 steps): loss 0.040 per label, no errors; model, loss and "
        "optimizer can learn. Wrong labels would be memorised too: to check that a record matches its "
        "labels, run python -m tfrecord_builder.show --data_dir=DATA"
    )


def test_failure_shows_the_last_loss_and_error_rate():
    said = describe(STUCK)
    assert said.startswith(
        "3 utterances not memorised after 31 s (100 steps), loss 2 per label, error rate 100 %; "
    )


@pytest.mark.parametrize(
    "losses, cause, command",
    [
        ([5.0, float("nan")], "the loss is NaN or Inf: the learning rate is too high", f"{AGAIN}0.0003"),
        ([5.0] * 50 + [9.0] * 50, "the loss rises: the learning rate is too high", f"{AGAIN}0.0003"),
        (FALLING, "the loss still falls: the learning rate or", f"{AGAIN}0.009"),
        (STUCK, "the loss is constant: the learning rate", f"{AGAIN}0.0003"),
    ],
)
def test_the_course_of_the_loss_determines_the_likely_cause(losses, cause, command):
    said = describe(losses)
    assert cause in said and said.endswith(command)


def test_causes_in_the_data_come_first():
    features, labels = make_batch()
    features["fbank"][1] = features["fbank"][0]
    said = describe(FALLING, batch=(features, labels))
    assert "1 of them have the same input as another utterance but different labels" in said
    assert said.endswith("python -m tfrecord_builder.show --data_dir=DATA")
    said = describe(FALLING, too_long_fraction=0.25)
    assert "25 % of them have more labels than frames after subsampling" in said
    assert said.endswith("python -m estimator_asr.doctor --data_dir=DATA,MORE")
    features, labels = make_batch()
    features["fbank"][2, 1, 0] = np.inf
    said = describe(FALLING, batch=(features, labels))
    assert "features contain NaN or Inf" in said
    assert said.endswith("python -m tfrecord_builder.verify --data_dir=DATA,MORE")


def test_padding_and_equal_labels_are_no_contradiction():
    features, labels = make_batch(((1, 2), (1, 2), (1, 2)))
    features["fbank"][1] = features["fbank"][0]
    assert overfit.count_contradictions(make_result(FALLING, batch=(features, labels))) == 0
    features["fbank"][2] = features["fbank"][0]
    features["fbank"][2, 3] = 77.0  # after its three frames
    features["num_frames"][:] = 3
    labels["token_ids"][2, 1] = 9
    assert overfit.count_contradictions(make_result(FALLING, batch=(features, labels))) == 1
