from __future__ import annotations

import numpy as np
import pytest

from estimator_asr.diagnostics import overfit_verdict
from estimator_asr.experiment import task_spec

COMMAND = "python -m estimator_asr.train --data_dir=DATA,MORE --model_dir=AM --overfit_batches 1"
AGAIN = f"{COMMAND} --learning_rate="


def make_batch(labels=((1, 2), (3, 4), (5, 6))):
    fbank = np.arange(3 * 4 * 2, dtype=np.float32).reshape([3, 4, 2])
    features = {"fbank": fbank, "num_frames": np.array([4, 4, 3])}
    return features, {"token_ids": np.array(labels), "num_tokens": np.array([2, 2, 2])}


def make_result(losses, *, batch=None, is_learned=False, **metrics):
    shown = {"token-error-rate": 1.0, **{tag.replace("_", "-"): value for tag, value in metrics.items()}}
    rows = [{"avg-loss": loss, **shown} for loss in losses]
    return overfit_verdict.Result(task_spec.ACOUSTIC, [batch or make_batch()], rows, 31.4, is_learned)


def describe(*args, **kwargs):
    return overfit_verdict.describe(make_result(*args, **kwargs), COMMAND, 0.003, "DATA,MORE")


FALLING = [10 * 0.95**step for step in range(100)]
STUCK = [5.0] * 20 + [2.0] * 80


def test_success_shows_seconds_and_steps():
    assert describe([3.0, 0.04], is_learned=True, token_error_rate=0.0) == (
        "3 utterances memorised after 31 s (2 steps): loss 0.040 per label, no errors; model, loss and "
        "optimizer can learn. Wrong labels would be memorised too: check that a record and its labels match "
        "with python -m tfrecord_builder.show --data_dir=DATA"
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
def test_causes_in_the_losses(losses, cause, command):
    said = describe(losses)
    assert cause in said and said.endswith(command)


def test_causes_in_the_batch_come_first():
    features, labels = make_batch()
    features["fbank"][1] = features["fbank"][0]
    said = describe(FALLING, batch=(features, labels))
    assert "1 of them have the same input as another one but other labels" in said
    assert said.endswith("python -m tfrecord_builder.show --data_dir=DATA")
    said = describe(FALLING, too_long_fraction=0.25)
    assert "25 % of them have more labels than frames after subsampling" in said
    assert said.endswith("python -m estimator_asr.doctor --data_dir=DATA,MORE")
    features, labels = make_batch()
    features["fbank"][2, 1, 0] = np.inf
    said = describe(FALLING, batch=(features, labels))
    assert "features contain NaN or Inf" in said
    assert said.endswith("python -m tfrecord_builder.verify --data_dir=DATA,MORE")


def test_padding_makes_no_contradiction_and_the_same_labels_make_none():
    features, labels = make_batch(((1, 2), (1, 2), (1, 2)))
    features["fbank"][1] = features["fbank"][0]
    assert overfit_verdict.count_contradictions(make_result(FALLING, batch=(features, labels))) == 0
    features["fbank"][2] = features["fbank"][0]
    features["fbank"][2, 3] = 77.0  # after its three frames
    features["num_frames"][:] = 3
    labels["token_ids"][2, 1] = 9
    assert overfit_verdict.count_contradictions(make_result(FALLING, batch=(features, labels))) == 1
