from __future__ import annotations

import math

import alarm_cases
import pytest

from estimator_asr.monitoring import dev_alarms, readings

CONTEXT = alarm_cases.CONTEXT


def bark(train, dev, forced=1.0, steps=(8000, 8500)):
    rows = [
        readings.Evaluation(
            step,
            {"token-error-rate": train},
            {"token-error-rate": dev, "teacher-forced-error-rate": forced},
        )
        for step in steps
    ]
    return [kind for kind, rule in dev_alarms.RULES.items() if rule(rows, CONTEXT)]


@pytest.mark.parametrize(
    "train, dev, said",
    [
        (0.2, 0.5, ["dev-gap"]),
        (0.21, 0.9, []),  # training is not good yet
        (0.2, 0.49, []),
        (0.02, 0.12, []),  # an honest difference between speakers
        (0.02, 0.01, []),
    ],
)
def test_training_good_and_dev_bad(train, dev, said):
    assert bark(train, dev) == said


@pytest.mark.parametrize(
    "forced, decoded, said",
    [
        (0.1, 0.4, ["decoding-gap"]),
        (0.1, 0.39, []),
        (0.4, 0.8, ["decoding-gap"]),
        (0.4, 0.79, []),  # not twice as many
        (0.5, 0.4, []),
    ],
)
def test_the_decoder_good_and_what_is_decoded_bad(forced, decoded, said):
    assert bark(1.0, decoded, forced) == said


def test_one_evaluation_or_one_too_early_is_not_enough():
    assert bark(0.1, 0.9, 0.1, steps=[8000]) == []
    assert bark(0.1, 0.9, 0.1, steps=[CONTEXT.settled_step, 8000]) == []
    assert bark(0.1, 0.9, 0.1, steps=[CONTEXT.late_step, 8000]) == ["dev-gap"]
    assert bark(0.1, 0.9, 0.1, steps=[CONTEXT.late_step + 1, 8000]) == ["decoding-gap", "dev-gap"]


def test_figures_that_are_missing_are_no_alarm():
    rows = [readings.Evaluation(step, {}, {"token-error-rate": 0.9}) for step in (8000, 9000)]
    assert not any(rule(rows, CONTEXT) for rule in dev_alarms.RULES.values())


def test_the_sentences_say_both_figures():
    rows = [
        readings.Evaluation(step, {"token-error-rate": 0.1}, {"token-error-rate": 0.9})
        for step in (8000, 9000)
    ]
    said = dev_alarms.dev_gap(rows, CONTEXT)
    assert said.startswith("10 % errors in training, 90 % on dev; likely ")
    where = "--model_dir=AM --data_dir=DATA,MORE"
    assert said.endswith(f"python -m estimator_asr.evaluate {where} --split=dev --output_dir=AM-report")


def test_more_weight_on_ctc_is_advised_for_a_new_model():
    figures = {"token-error-rate": 0.9, "teacher-forced-error-rate": 0.1}
    rows = [readings.Evaluation(step, {}, figures) for step in (8000, 9000)]
    said = dev_alarms.decoding_gap(rows, CONTEXT)
    assert said.endswith(f"{CONTEXT.train_command} --model_dir=AM-ctc0.9 --ctc_weight=0.9")


def evaluate(step, **figures):
    dev = {tag.replace("_", "-"): value for tag, value in figures.items()}
    return [readings.Evaluation(step, {}, {"global-step": step, **dev})]


@pytest.mark.parametrize("step", [1, 8000])
def test_a_loss_on_dev_that_is_nan_is_an_alarm_at_once(step):
    said = dev_alarms.nan_loss(evaluate(step, avg_loss=math.nan, loss=math.nan, ctc_loss=2.0), CONTEXT)
    assert said == (
        "avg-loss, loss on dev: NaN, so this checkpoint is never one of the best; likely features of dev are "
        "NaN or Inf, or the weights are; check the data: python -m tfrecord_builder.verify "
        "--data_dir=DATA,MORE"
    )
    assert dev_alarms.nan_loss(evaluate(step, avg_loss=2.0, ctc_loss=math.inf), CONTEXT) is None


def test_a_model_that_writes_nothing_on_dev_is_an_alarm_once_it_should():
    late = CONTEXT.settled_step + 1
    assert dev_alarms.nothing_written(evaluate(late, length_ratio=0.0), CONTEXT) == (
        "on dev the model writes 0 % as many tokens as the references have, so hypotheses are empty; likely "
        "the learning rate is far off, or labels do not belong to the audio; see whether one batch can be "
        f"learned: {CONTEXT.train_command} --overfit_batches=1"
    )
    assert dev_alarms.nothing_written(evaluate(late, length_ratio=0.01), CONTEXT)
    assert dev_alarms.nothing_written(evaluate(late, length_ratio=0.011), CONTEXT) is None
    assert dev_alarms.nothing_written(evaluate(late - 1, length_ratio=0.0), CONTEXT) is None
    assert dev_alarms.nothing_written(evaluate(late, character_error_rate=1.0), CONTEXT) is None  # of text
