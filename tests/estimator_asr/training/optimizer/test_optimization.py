from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.models import normalisation
from estimator_asr.training.optimizer import optimization, skippable


def optimise(build_loss, optimizer, *, clip_norm=0.0, steps=1, start=(0.0, 0.0, 0.0)):
    """Returns the variable and the gradient norm after some steps."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        start = np.float32(start)
        variable = tf.compat.v1.get_variable("w", initializer=start)
        global_step = tf.compat.v1.train.create_global_step()
        update = optimization.Minimizer(optimizer(), clip_norm, global_step).minimize(build_loss(variable))
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(steps):
            _, norm = session.run([update.train_op, update.gradient_norm])
        assert session.run(global_step) == steps and update.num_parameters == start.size
        return session.run(variable), norm


def sgd():
    return skippable.Momentum(tf.constant(1.0), 0.0)


@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_both_optimizers_reach_a_known_answer(name):
    settings = training_config.OptimizerConfig(optimizer=name, adam_beta2=0.999)
    target = np.float32([0.4, 0.2, -0.5])

    def build_optimizer():
        return optimization.build_optimizer(settings, tf.constant(0.1))

    values, _ = optimise(
        lambda w: tf.reduce_mean(tf.square(w - target)), build_optimizer, clip_norm=5.0, steps=150
    )
    np.testing.assert_allclose(values, target, atol=0.02)


def test_a_gradient_above_the_norm_is_scaled_to_it():
    values, norm = optimise(lambda w: tf.reduce_sum(w * [3.0, 0.0, 4.0]), sgd, clip_norm=1.0)
    np.testing.assert_allclose(values, [-0.6, 0, -0.8], rtol=1e-6)
    assert norm == pytest.approx(5)


def test_gradients_within_the_norm_or_without_clipping_are_unchanged():
    for clip_norm in (6.0, 0.0):
        values, _ = optimise(lambda w: tf.reduce_sum(w * [3.0, 0.0, 4.0]), sgd, clip_norm=clip_norm)
        np.testing.assert_allclose(values, [-3, 0, -4], rtol=1e-6)


def test_rows_gathered_twice_are_summed():
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
        step = tf.compat.v1.train.create_global_step()
        update = optimization.Minimizer(sgd(), 0.0, step).minimize(weight * weight)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(update.train_op)
        assert session.run(counter) == 1


class Fed:
    """A weight and a table whose loss has a value that is fed, and a moving average."""

    def __init__(self, name, scale=None):
        self.value = tf.compat.v1.placeholder(tf.float32, [])
        weight = tf.compat.v1.get_variable("weight", initializer=[1.0, 2.0])
        table = tf.compat.v1.get_variable("table", initializer=np.ones([4, 2], np.float32))
        self.rows = tf.compat.v1.placeholder(tf.float32, [])
        loss = tf.reduce_sum(weight) * self.value + tf.reduce_sum(tf.gather(table, [1, 3])) * self.rows
        average = tf.compat.v1.get_variable("average", initializer=0.0, trainable=False)
        normalisation._defer(average, self.value)
        optimizer = optimization.build_optimizer(
            training_config.OptimizerConfig(optimizer=name), tf.constant(0.1)
        )
        step = tf.compat.v1.train.create_global_step()
        self.scale = scale and scale()
        self.update = optimization.Minimizer(optimizer, 5.0, step, self.scale).minimize(loss)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def step(self, value, rows=1.0):
        """Returns whether the step was finite."""
        feeds = {self.value: value, self.rows: rows}
        return self.session.run([self.update.is_finite, self.update.train_op], feeds)[0]

    def values(self):
        return {v.op.name: self.session.run(v) for v in tf.compat.v1.global_variables()}


@pytest.mark.parametrize("bad", [{"value": np.nan}, {"value": np.inf}, {"value": 1.0, "rows": np.nan}])
@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_a_non_finite_step_changes_only_the_global_step(name, bad):
    with tf.Graph().as_default():
        fed = Fed(name)
        assert fed.step(1.0) and fed.step(-2.0)
        before = fed.values()
        assert not fed.step(**bad)
        after = fed.values()
        assert after.pop("global_step") == before.pop("global_step") + 1 == 3
        for variable, value in before.items():
            np.testing.assert_array_equal(after[variable], value, variable)
        assert fed.step(3.0) and fed.values()["average"] == before["average"] + 3


def test_a_loss_scale_changes_only_steps_that_overflow():
    results = []
    for scale in (None, optimization.LossScale):
        with tf.Graph().as_default():
            fed = Fed("adam", scale)
            assert fed.step(1.0) and fed.step(-2.0)
            results.append(fed.values())
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=1e-6, err_msg=name)
    with tf.Graph().as_default():
        fed = Fed("adam", optimization.LossScale)
        # The loss is finite, but times the scale the gradient is not: not a bad batch, but a lower scale.
        assert fed.step(1e35)
        values = fed.values()
        np.testing.assert_array_equal(values["weight"], [1, 2])
        assert values["loss_scale/scale"] == 2**14 and values["average"] == 0
        assert not fed.step(np.nan)
        assert fed.values()["loss_scale/scale"] == 2**14
        assert "loss-scale" in fed.update.scalars


class Scaling:
    def __init__(self):
        self.scale = optimization.LossScale()
        self.loss, self.gradient = (tf.compat.v1.placeholder(tf.bool, []) for _ in range(2))
        self.is_overflow = self.scale.is_overflow(self.loss, self.gradient)
        self.update_op = self.scale.update(self.is_overflow, self.loss & self.gradient)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def update(self, *, loss=True, gradient=True):
        """Returns whether it overflowed."""
        feeds = {self.loss: loss, self.gradient: gradient}
        return self.session.run([self.is_overflow, self.update_op], feeds)[0]

    def set(self, name, value):
        (variable,) = (v for v in tf.compat.v1.global_variables() if v.op.name == f"loss_scale/{name}")
        self.session.run(variable.assign(value))

    def values(self):
        return [self.session.run(variable) for variable in tf.compat.v1.global_variables()]


@pytest.fixture
def scaling():
    with tf.Graph().as_default():
        yield Scaling()


def test_an_overflow_halves_the_scale_and_restarts_the_count(scaling):
    assert scaling.values() == [32768, 0]
    assert not scaling.update()
    assert scaling.values() == [32768, 1]
    assert scaling.update(gradient=False)
    assert scaling.values() == [16384, 0]


def test_enough_good_updates_double_the_scale(scaling):
    scaling.set("good_updates", 1998.0)
    scaling.update()
    assert scaling.values() == [32768, 1999]
    scaling.update()
    assert scaling.values() == [65536, 0]


def test_the_scale_stays_within_float32(scaling):
    scaling.set("scale", 2.0**127)
    scaling.set("good_updates", 1999.0)
    scaling.update()
    assert scaling.values() == [2.0**127, 0]


def test_a_non_finite_loss_is_not_an_overflow_and_changes_nothing(scaling):
    scaling.update()
    assert not scaling.update(loss=False, gradient=False)
    assert scaling.values() == [32768, 1]


def test_a_scale_of_one_is_the_minimum(scaling):
    scaling.set("scale", 2.0)
    assert scaling.update(gradient=False)
    assert scaling.values() == [1, 0]
    assert not scaling.update(gradient=False)
    assert scaling.values() == [1, 0]


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


def test_two_replicas_sum_the_rows_of_sparse_gradients(two_replicas):
    # Row 0 by the first replica (2 labels), row 1 by both (2 and 6), row 2 by nobody; out of 8 labels.
    gradient = np.array([2, 8, 0]) / 8
    np.testing.assert_allclose(two_replicas["sparse"]["weights"], -gradient, rtol=1e-6)


def test_two_replicas_clip_sparse_gradients_by_the_norm_of_their_sum(two_replicas):
    gradient = np.array([2, 8, 0]) / 8
    clipped = two_replicas["clipped sparse"]
    assert clipped["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
    np.testing.assert_allclose(clipped["weights"], -gradient / np.linalg.norm(gradient) * 0.5, rtol=1e-5)
