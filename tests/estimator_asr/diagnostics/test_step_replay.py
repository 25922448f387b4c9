from __future__ import annotations

import math
import os

import numpy as np
import pytest
import small_batches
import small_records
import tensorflow as tf

from estimator_asr.diagnostics import step_replay
from estimator_asr.models import acoustic
from estimator_asr.tasks import registry
from tfrecord_builder import errors

RECORDS = small_records.make_records("train", 3, small_records.TOKENS, small_records.FRONTEND, True)


def make_batch():
    part = small_batches.make_part(RECORDS, range(3))
    return part, {key: value for key, value in part.items() if key != "seed"}


def make_checkpoint(model, changes=()):
    """Weights as they are drawn, but for some that are given."""
    features, labels = make_batch()
    path = os.path.join(model.path, "model.ckpt")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        features, labels = (
            {key: tf.constant(value) for key, value in arrays.items()} for arrays in (features, labels)
        )
        registry.of(model.config).forward(model, features, labels, True)
        tf.compat.v1.train.create_global_step()
        session.run(tf.compat.v1.global_variables_initializer())
        for variable in tf.compat.v1.global_variables():
            if variable.op.name in dict(changes):
                session.run(variable.assign(tf.fill(variable.shape, dict(changes)[variable.op.name])))
        return tf.compat.v1.train.Saver().save(session, path, write_state=False)


def replay(tmp_path, kind, changes=(), alter=lambda features: None):
    model = small_batches.make_model(str(tmp_path), kind)
    features, labels = make_batch()
    alter(features)
    return step_replay.replay(model, make_checkpoint(model, changes), features, labels)


@pytest.mark.parametrize("kind", sorted(registry.TASKS))
def test_a_sound_batch_has_a_loss_and_nothing_is_found(tmp_path, kind):
    result = replay(tmp_path, kind)
    assert result.loss > 0 and result.gradient_norm > 0 and result.finding is None
    assert len(result.utterance_losses) == 3 and np.isfinite(result.utterance_losses).all()


def test_features_that_are_no_number_are_named_with_their_utterance(tmp_path):
    def alter(features):
        features["fbank"][1, 5, 3] = math.nan

    result = replay(tmp_path, "acoustic", alter=alter)
    assert math.isnan(result.loss) and math.isnan(result.gradient_norm)
    assert (result.finding.tensor, result.finding.rows) == ("features/fbank:0", [1])
    assert [math.isfinite(loss) for loss in result.utterance_losses] == [True, False, True]


def test_weights_that_are_no_number_are_named(tmp_path):
    name = "language/layer_0/feed_forward/inner/kernel"
    result = replay(tmp_path, "language", changes=[(name, math.inf)])
    assert (result.finding.tensor, result.finding.op) == (name, "ReadVariableOp")
    assert result.finding.layer == "language/layer_0/feed_forward/inner"
    assert math.isnan(result.gradient_norm)  # the loss may be finite: a fused ReLU makes 0 of NaN


def test_a_planted_logarithm_of_zero_is_named_with_its_layer(tmp_path, monkeypatch):
    normalise = acoustic.normalise

    def broken(fbank, num_frames):
        is_long = tf.cast(num_frames > 40, tf.float32)  # the third utterance alone
        return normalise(fbank, num_frames) + tf.math.log(1.0 - is_long)[:, None, None]

    monkeypatch.setattr(acoustic, "normalise", broken)
    result = replay(tmp_path, "acoustic")
    assert (result.finding.op, result.finding.layer, result.finding.rows) == ("Log", "acoustic", [2])
    assert [math.isfinite(loss) for loss in result.utterance_losses] == [True, True, False]


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    model = small_batches.make_model(str(tmp_path / "one"), "language")
    other = small_batches.make_model(str(tmp_path / "other"), "acoustic")
    with pytest.raises(
        errors.UserError, match=r"checkpoint cannot be read \(it is of another model\), expected"
    ):
        step_replay.replay(other, make_checkpoint(model), *make_batch())


def test_a_checkpoint_that_is_cut_short_is_refused_in_a_sentence(tmp_path):
    model = small_batches.make_model(str(tmp_path), "acoustic")
    checkpoint = make_checkpoint(model)
    with open(f"{checkpoint}.data-00000-of-00001", "r+b") as file:
        file.truncate(100)
    with pytest.raises(errors.UserError, match=r"cannot be read \([^\n]+\), expected weights of") as error:
        step_replay.replay(model, checkpoint, *make_batch())
    assert "Graph execution" not in str(error.value)
