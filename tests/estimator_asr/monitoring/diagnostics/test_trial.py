import os

import numpy as np
import pytest
import small_models
import tensorflow as tf

from estimator_asr.inputs import input_fn, splits
from estimator_asr.monitoring.diagnostics import trial


@pytest.mark.long
def test_steps_on_batches_in_memory_are_those_of_the_model_fn(tmp_path):
    kind = "language"  # test_overfit runs steps of both models
    model, info, path = small_models.make_model(tmp_path, kind)
    before = sorted(os.listdir(model.path))
    source = splits.read_split([info], [path], "train", model.config.spec)
    read = input_fn.build_input_fn(source, model.config.input, training=True)
    batches = list(input_fn.read_elements(lambda: read().take(2)))
    with trial.start_trial(model, batches[0], tf.compat.v1.ConfigProto()) as running:
        rows = [running.step_with_metrics(batches[0]) for _ in range(8)]
        step = tf.compat.v1.train.get_global_step(running.session.graph)
        assert running.step(batches[1], step) in (8, 9)  # the step may be read before or after the update
        assert running.session.run(step) == 9
    assert {*small_models.FIGURES[kind], "learning-rate"} <= set(rows[0])
    assert rows[0]["learning-rate"] == pytest.approx(
        model.config.optimizer.learning_rate
    )  # a trial has no warm-up
    assert rows[-1]["avg-loss"] < rows[0]["avg-loss"]
    assert sorted(os.listdir(model.path)) == before


def test_placeholders_have_the_static_shapes_of_training():
    arrays = {"fbank": np.zeros([2, 3, 4], np.float32), "seed": np.zeros(2, np.int64)}
    with tf.Graph().as_default():
        features, labels = trial.placeholders((arrays, {"token_ids": np.eye(2)}))
    assert features["fbank"].shape.as_list() == [None, None, 4] and features["fbank"].dtype == tf.float32
    assert features["seed"].shape.as_list() == [2] and labels["token_ids"].shape.as_list() == [None, None]
    assert labels["token_ids"].name == "labels/token_ids:0"
