import dataclasses
import os

import numpy as np
import pytest
import small_checkpoints
import small_models
import small_records

from estimator_asr.experiment import config, experiment, task_spec, training_config
from estimator_asr.inputs import splits
from estimator_asr.monitoring.diagnostics import overfit
from tfrecord_builder import errors

OPTIMIZER = training_config.OptimizerConfig(learning_rate=0.0025, warmup_epochs=3)
COMMAND = "python -m estimator_asr.train --data_dir=DATA --model_dir=AM"


def make_data(tmp_path, kind, num_utterances=10, change=lambda record: record, **sections):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", num_utterances)], change=change)
    settings = {
        "acoustic": small_models.ACOUSTIC,
        "language": small_models.WITHOUT_DROPOUT["language"],
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
    said = overfit.run_overfit_test(settings, infos, dirs, COMMAND)
    assert " utterances were memorised after " in said
    assert "so the model, the loss and the optimizer work" in said
    assert os.listdir(tmp_path) == ["data"]


def test_a_damaged_shard_is_refused(tmp_path):
    settings, infos, dirs = make_data(tmp_path, "language")
    small_checkpoints.flip(infos[0].shard_paths(dirs[0], "train")[0], 40)
    with pytest.raises(errors.UserError, match="a shard of split train is damaged"):
        overfit.run_overfit_test(settings, infos, dirs, COMMAND)


@pytest.mark.long
def test_a_learning_rate_that_is_too_high_is_named_as_the_cause(tmp_path):
    wild = dataclasses.replace(OPTIMIZER, learning_rate=1e30, clip_norm=0.0)
    settings, infos, dirs = make_data(tmp_path, "language", optimizer=wild)
    with pytest.raises(errors.UserError, match="learning rate is too high; try .*=1e[+]29"):
        overfit.run_overfit_test(settings, infos, dirs, COMMAND, seconds=5.0)


def test_regularisation_is_switched_off(tmp_path):
    optimizer = training_config.OptimizerConfig(
        learning_rate=0.01,
        learning_rate_batch_size=10,
        schedule="inverse_sqrt",
        gradient_accumulation_steps=4,
    )
    acoustic = config.AcousticConfig(acoustic_dropout=0.3)
    settings, infos, dirs = make_data(tmp_path, "acoustic", optimizer=optimizer, acoustic=acoustic)
    simple = overfit.simplify(settings, splits.read_split(infos, dirs, "train", task_spec.ACOUSTIC))
    assert (simple.acoustic.acoustic_dropout, simple.acoustic.label_smoothing) == (0, 0)
    language = simple.language
    assert (language.language_dropout, language.ngram_dropout, language.token_noise) == (0, 0, 0)
    assert not simple.input.spec_augment
    assert (simple.optimizer.schedule, simple.optimizer.gradient_accumulation_steps) == ("step", 1)
    # An epoch has ten utterances and one batch per length. This is the rate after the warm-up.
    num_lengths = len(infos[0].splits["train"].frame_lengths)
    assert simple.optimizer.learning_rate == pytest.approx(0.01 * 10 / num_lengths / 10)
    assert simple.optimizer.learning_rate_batch_size == 0
    assert simple.acoustic.encoder_layers == settings.acoustic.encoder_layers


def test_batches_become_about_ten_utterances(tmp_path):
    settings, infos, dirs = make_data(tmp_path, "language", num_utterances=60)
    simple = overfit.simplify(settings, splits.read_split(infos, dirs, "train", task_spec.LANGUAGE))
    assert (simple.input.batch_tokens, simple.input.num_buckets) == (30, 1)  # ten utterances of 3 tokens


KNOWN = {"avg-loss": 0.049, "error-rate": 0.0}
HALF = {**KNOWN, "error-rate": 0.5}
# Two of seven characters are not paired with tokens, and one is unknown.
UNPAIRED = {
    "avg-loss": 0.01,
    "unknown-fraction": float(np.float32(1) / np.float32(7)),
    "used-label-fraction": float(np.float32(5) / np.float32(7)),
}


@pytest.mark.parametrize(
    "metrics, num_batches, is_learned",
    [
        ([KNOWN, KNOWN], 2, True),
        ([KNOWN], 2, False),
        ([{**KNOWN, "avg-loss": 0.05}, KNOWN], 2, False),
        ([{**KNOWN, "error-rate": 0.01}, KNOWN], 2, False),
        ([{**KNOWN, "avg-loss": 0.05}, KNOWN], 1, True),
        ([{**HALF, "unknown-fraction": 0.5}], 1, True),
        ([{**HALF, "unknown-fraction": 0.25}], 1, False),
        ([{**UNPAIRED, "error-rate": float(np.float32(3) / np.float32(7))}], 1, True),
        ([{**UNPAIRED, "error-rate": 4 / 7}], 1, False),
    ],
)
def test_every_batch_must_have_a_low_loss_and_no_avoidable_errors(metrics, num_batches, is_learned):
    assert overfit.is_learned(metrics, num_batches, "error-rate") == is_learned


TRAIN = "python -m estimator_asr.train --data_dir=DATA,MORE --model_dir=AM --overfit_batches 1"


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
RISING = [5.0] * 50 + [9.0] * 50


def test_success_shows_seconds_and_steps():
    assert describe([3.0, 0.04], is_learned=True, token_error_rate=0.0) == (
        "3 utterances were memorised after 31 s (2 steps): loss 0.040 per label, no errors, so the model, "
        "the loss and the optimizer work. Wrong labels would be memorised too; to check that a record "
        "matches its labels, run python -m tfrecord_builder.show --data_dir=DATA"
    )


@pytest.mark.parametrize(
    "losses, cause, rate",
    [
        ([5.0, float("nan")], "the loss is NaN or Inf, because the learning rate is too high", 0.0003),
        (RISING, "the loss rises, because the learning rate is too high", 0.0003),
        (FALLING, "the loss is still falling, so the learning rate or", 0.009),
        (STUCK, "the loss is constant, because the learning rate", 0.0003),
    ],
)
def test_the_losses_determine_the_likely_cause(losses, cause, rate):
    said = describe(losses)
    start = f"3 utterances were not memorised after 31 s ({len(losses)} steps), loss {losses[-1]:.3g} "
    assert said.startswith(f"{start}per label, error rate 100 %; {cause}")
    assert said.endswith(f"; try {TRAIN} --learning_rate={rate}")


def change_batch(place, value):
    features, labels = make_batch()
    features["fbank"][place] = value
    return features, labels


@pytest.mark.parametrize(
    "options, cause",
    [
        (
            {"batch": change_batch(1, make_batch()[0]["fbank"][0])},
            "1 of them have the same input as another utterance but different labels; inspect a record with "
            "python -m tfrecord_builder.show --data_dir=DATA",
        ),
        (
            {"too_long_fraction": 0.25},
            "25 % of them have more labels than frames after subsampling; to list the worst utterances, run "
            "python -m estimator_asr.doctor --data_dir=DATA,MORE",
        ),
        (
            {"batch": change_batch((2, 1, 0), np.inf)},
            "features contain NaN or Inf; find them with python -m tfrecord_builder.verify "
            "--data_dir=DATA,MORE",
        ),
    ],
)
def test_causes_in_the_data_come_before_causes_in_the_losses(options, cause):
    assert describe(FALLING, **options).endswith(f"per label, error rate 100 %; {cause}")


@pytest.mark.long
def test_contradicting_labels_are_named_as_the_cause(tmp_path):
    same = small_records.make_records("train", 3)[2].fbank

    def change(record):
        return dataclasses.replace(record, fbank=same)

    settings, infos, dirs = make_data(tmp_path, "acoustic", change=change)
    said = "train: --overfit_batches=1: .* not memorised after .* have the same input as another utterance"
    with pytest.raises(errors.UserError, match=said):
        overfit.run_overfit_test(settings, infos, dirs, COMMAND, seconds=1.0)


def test_padding_and_equal_labels_are_no_contradiction():
    features, labels = make_batch(((1, 2), (1, 2), (1, 2)))
    features["fbank"][1] = features["fbank"][0]
    assert overfit.count_contradictions(make_result(FALLING, batch=(features, labels))) == 0
    features["fbank"][2] = features["fbank"][0]
    features["fbank"][2, 3] = 77.0  # padding, because utterance 2 has only three frames
    features["num_frames"][:] = 3
    labels["token_ids"][2, 1] = 9
    assert overfit.count_contradictions(make_result(FALLING, batch=(features, labels))) == 1
