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

    def build_loss(weights):
        return tf.reduce_mean(tf.square(weights - target))

    def build_optimizer():
        return optimization.build_optimizer(settings, tf.constant(0.1))

    values, _ = optimise(build_loss, build_optimizer, clip_norm=5.0, steps=150)
    np.testing.assert_allclose(values, target, atol=0.02)


@pytest.mark.parametrize(
    "clip_norm, values", [(1.0, [-0.6, 0, -0.8]), (6.0, [-3, 0, -4]), (0.0, [-3, 0, -4])]
)
def test_a_gradient_above_the_norm_is_scaled_to_it(clip_norm, values):
    found, norm = optimise(lambda w: tf.reduce_sum(w * [3.0, 0.0, 4.0]), sgd, clip_norm=clip_norm)
    np.testing.assert_allclose(found, values, rtol=1e-6)
    assert norm == pytest.approx(5)


def test_rows_gathered_twice_are_summed():
    def build_loss(weights):
        return tf.reduce_sum(tf.gather(weights, [1, 1]) * [3.0, 4.0])

    values, norm = optimise(build_loss, sgd, clip_norm=1.0, start=[0, 0])
    assert norm == pytest.approx(7)  # not 5, because the gradient of row 1 is 3 + 4
    np.testing.assert_allclose(values, [0, -1], rtol=1e-6)


def test_update_ops_run_with_the_step(session):
    counter = tf.compat.v1.get_variable("counter", initializer=0.0, trainable=False)
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, counter.assign_add(1.0))
    weight = tf.compat.v1.get_variable("w", initializer=1.0)
    step = tf.compat.v1.train.create_global_step()
    update = optimization.Minimizer(sgd(), 0.0, step).minimize(weight * weight)
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(update.train_op)
    assert session.run(counter) == 1


class Fed:
    """Trains weights, a table and a moving average; each step feeds the values that determine the loss."""

    def __init__(self, name, scale=None):
        self.value = tf.compat.v1.placeholder(tf.float32, [])
        weight = tf.compat.v1.get_variable("weight", initializer=[1.0, 2.0])
        table = tf.compat.v1.get_variable("table", initializer=np.ones([4, 2], np.float32))
        self.rows = tf.compat.v1.placeholder(tf.float32, [])
        loss = tf.reduce_sum(weight) * self.value + tf.reduce_sum(tf.gather(table, [1, 3])) * self.rows
        average = tf.compat.v1.get_variable("average", initializer=0.0, trainable=False)
        normalisation.defer_update(average, self.value)
        config = training_config.OptimizerConfig(optimizer=name)
        optimizer = optimization.build_optimizer(config, tf.constant(0.1))
        step = tf.compat.v1.train.create_global_step()
        self.update = optimization.Minimizer(optimizer, 5.0, step, scale and scale()).minimize(loss)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def step(self, value, rows=1.0):
        """Runs a step; returns True if it was finite."""
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
        np.testing.assert_equal(after, before)
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
        assert fed.step(1e35)  # the loss is finite; only its gradient multiplied by the scale overflows
        values = fed.values()
        np.testing.assert_array_equal(values["weight"], [1, 2])
        assert values["loss_scale/scale"] == 2**14 and values["average"] == 0
        assert not fed.step(np.nan)
        assert fed.values()["loss_scale/scale"] == 2**14
        assert "loss-scale" in fed.update.scalars


GOOD, OVERFLOW, BAD_LOSS = (True, True), (True, False), (False, False)  # are loss and gradient finite?


@pytest.mark.parametrize(
    "start, event, expected, is_overflow",
    [
        ((32768, 0), GOOD, (32768, 1), False),
        ((32768, 1), OVERFLOW, (16384, 0), True),
        ((32768, 1), BAD_LOSS, (32768, 1), False),
        ((32768, 1998), GOOD, (32768, 1999), False),
        ((32768, 1999), GOOD, (65536, 0), False),
        ((2.0**127, 1999), GOOD, (2.0**127, 0), False),  # twice the scale would exceed float32
        ((2, 0), OVERFLOW, (1, 0), True),
        ((1, 0), OVERFLOW, (1, 0), False),
    ],
)
def test_overflows_and_good_updates_change_the_loss_scale(session, start, event, expected, is_overflow):
    scale = optimization.LossScale()
    overflow = scale.is_overflow(*map(tf.constant, event))
    update = scale.update(overflow, tf.constant(all(event)))
    variables = tf.compat.v1.global_variables()
    assert [variable.op.name for variable in variables] == ["loss_scale/scale", "loss_scale/good_updates"]
    session.run(tf.compat.v1.global_variables_initializer())
    assert session.run(variables) == [optimization.INITIAL_SCALE, 0]
    session.run([variable.assign(float(value)) for variable, value in zip(variables, start)])
    assert session.run([overflow, update])[0] == is_overflow
    assert tuple(session.run(variables)) == expected


@pytest.mark.parametrize(
    "name, gradient, clip_norm",
    [
        # The sum over the 8 labels of both replicas, divided by 8: (2 x [1, 0] + 6 x [0, 1]) / 8.
        ("dense", [0.25, 0.75], 0.5),
        # The first replica (2 labels) uses rows 0 and 1, the second (6 labels) row 1, and none of them row 2.
        ("sparse", [0.25, 1.0, 0.0], None),
        ("clipped sparse", [0.25, 1.0, 0.0], 0.5),
    ],
)
def test_two_replicas_sum_gradients_and_clip_the_norm_of_the_sum(two_replicas, name, gradient, clip_norm):
    norm = np.linalg.norm(gradient)
    factor = clip_norm / norm if clip_norm else 1.0
    assert two_replicas[name]["gradient_norm"] == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(two_replicas[name]["weights"], -np.array(gradient) * factor, rtol=1e-5)


def test_the_losses_of_two_replicas_average_to_the_loss_per_label_of_the_whole_batch(two_replicas):
    # Every label has loss 1. The first replica divides its 2 labels by the mean of 4 labels per replica.
    assert two_replicas["dense"]["loss"] == pytest.approx(0.5)
