from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr import config
from estimator_asr.training import optimization


def optimise(build_loss, optimizer, *, clip_norm=0.0, steps=1, start=(0.0, 0.0, 0.0)):
    """Returns the variable and the gradient norm after some steps."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        start = np.float32(start)
        variable = tf.compat.v1.get_variable("w", initializer=start)
        global_step = tf.compat.v1.train.create_global_step()
        update = optimization.minimize(build_loss(variable), optimizer(), clip_norm, global_step)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(steps):
            _, norm = session.run([update.train_op, update.gradient_norm])
        assert session.run(global_step) == steps and update.num_parameters == start.size
        return session.run(variable), norm


def sgd():
    return tf.compat.v1.train.GradientDescentOptimizer(1.0)


@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_both_optimizers_reach_a_known_answer(name):
    settings = config.OptimizerConfig(optimizer=name, adam_beta2=0.999)
    target = np.float32([0.4, 0.2, -0.5])

    def build_optimizer():
        return optimization.build_optimizer(settings, tf.constant(0.1))

    values, _ = optimise(
        lambda w: tf.reduce_mean(tf.square(w - target)), build_optimizer, clip_norm=5.0, steps=150
    )
    np.testing.assert_allclose(values, target, atol=0.02)


def test_a_gradient_beyond_the_norm_is_scaled_to_it():
    values, norm = optimise(lambda w: tf.reduce_sum(w * [3.0, 0.0, 4.0]), sgd, clip_norm=1.0)
    np.testing.assert_allclose(values, [-0.6, 0, -0.8], rtol=1e-6)
    assert norm == pytest.approx(5)


def test_a_gradient_within_the_norm_and_one_without_clipping_stay():
    for clip_norm in (6.0, 0.0):
        values, _ = optimise(lambda w: tf.reduce_sum(w * [3.0, 0.0, 4.0]), sgd, clip_norm=clip_norm)
        np.testing.assert_allclose(values, [-3, 0, -4], rtol=1e-6)


def test_rows_gathered_twice_count_with_their_sum():
    # Row 1 has the gradient 3 + 4 in its only column, row 0 none: the norm is 7, not 5.
    values, norm = optimise(
        lambda w: tf.reduce_sum(tf.gather(w, [1, 1]) * [3.0, 4.0]), sgd, clip_norm=1.0, start=[0, 0]
    )
    assert norm == pytest.approx(7)
    np.testing.assert_allclose(values, [0, -1], rtol=1e-6)


def test_update_ops_run_with_the_step():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        counter = tf.compat.v1.get_variable("counter", initializer=0.0, trainable=False)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, counter.assign_add(1.0))
        weight = tf.compat.v1.get_variable("w", initializer=1.0)
        update = optimization.minimize(weight * weight, sgd(), 0.0, tf.compat.v1.train.create_global_step())
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(update.train_op)
        assert session.run(counter) == 1


@pytest.fixture(scope="module")
def two_replicas():
    program = pathlib.Path(__file__).parent / "two_replicas.py"
    command = [sys.executable, str(program)]
    root = str(program.parent.parent)
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=root, timeout=120, env={"PYTHONPATH": root}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_two_replicas_clip_the_norm_of_the_whole_gradient(two_replicas):
    # Per label of the whole batch: (2 x [1, 0] + 6 x [0, 1]) / 8 = [0.25, 0.75]; clipped to norm 0.5.
    gradient = np.array([0.25, 0.75])
    assert two_replicas["dense"]["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
    np.testing.assert_allclose(
        two_replicas["dense"]["weights"], -gradient / np.linalg.norm(gradient) * 0.5, rtol=1e-5
    )


def test_the_losses_of_two_replicas_average_to_the_loss_per_label_of_the_whole_batch(two_replicas):
    # Every label costs 1; the first replica has 2 of them where the mean is 4, so the second has 1.5.
    assert two_replicas["dense"]["loss"] == pytest.approx(0.5)


def test_two_replicas_add_up_the_rows_of_sparse_gradients(two_replicas):
    # Row 0 by the first replica (2 labels), row 1 by both (2 and 6), row 2 by nobody; out of 8 labels.
    gradient = np.array([2, 8, 0]) / 8
    np.testing.assert_allclose(two_replicas["sparse"]["weights"], -gradient, rtol=1e-6)


def test_two_replicas_clip_sparse_gradients_by_the_norm_of_their_sum(two_replicas):
    gradient = np.array([2, 8, 0]) / 8
    clipped = two_replicas["clipped sparse"]
    assert clipped["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
    np.testing.assert_allclose(clipped["weights"], -gradient / np.linalg.norm(gradient) * 0.5, rtol=1e-5)
