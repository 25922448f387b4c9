from __future__ import annotations

import os

import numpy as np
import pytest
import task_models
import tensorflow as tf

from estimator_asr.diagnostics import trial
from estimator_asr.inputs import input_fn


def test_steps_on_batches_in_memory_are_those_of_the_model_fn(tmp_path):
    kind = "language"  # test_overfit makes steps of both
    model, info, path = task_models.make_model(tmp_path, kind)
    before = sorted(os.listdir(model.path))
    read = input_fn.build_input_fn(
        [info], [path], "train", model.config.input, spec=model.config.spec, training=True
    )
    batches = trial.read_batches(read, 2)
    assert len(batches.values) == 2 and set(batches.values[0][0]) == set(batches.spec[0])
    with trial.start(model, batches.spec, tf.compat.v1.ConfigProto()) as running:
        rows = [running.step_with_metrics(batches.values[0]) for _ in range(8)]
        step = tf.compat.v1.train.get_global_step(running.session.graph)
        assert running.step(batches.values[1], step) in (8, 9)  # fetched before or after the update
        assert running.session.run(step) == 9
    assert {*task_models.FIGURES[kind], "learning-rate"} <= set(rows[0])
    # No warm-up here.
    assert rows[0]["learning-rate"] == pytest.approx(model.config.optimizer.learning_rate)
    assert rows[-1]["avg-loss"] < rows[0]["avg-loss"]
    assert sorted(os.listdir(model.path)) == before


def test_a_short_dataset_gives_what_there_is():
    def read():
        return tf.data.Dataset.range(3).map(lambda x: ({"fbank": x}, {"token_ids": x + 1}))

    batches = trial.read_batches(read, 5)
    assert batches.values == [({"fbank": i}, {"token_ids": i + 1}) for i in range(3)]
    assert batches.spec[0]["fbank"].dtype == np.int64
