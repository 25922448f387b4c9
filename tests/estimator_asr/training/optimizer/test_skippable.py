import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.training.optimizer import skippable

START = np.float32([[1, 2], [3, -4], [5, 6]])
OURS = {
    "adam": lambda: skippable.Adam(tf.constant(0.1), 0.9, 0.98),
    "momentum": lambda: skippable.Momentum(tf.constant(0.1), 0.9),
}
OF_TENSORFLOW = {
    "adam": lambda: tf.compat.v1.train.AdamOptimizer(0.1, 0.9, 0.98),
    "momentum": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
}


class Training:
    """Trains a table; the caller decides for each step whether it is applied or skipped."""

    def __init__(self, name, is_sparse):
        table = tf.compat.v1.get_variable("table", initializer=START)
        read = tf.gather(table, [0, 2]) if is_sparse else table
        self.is_applied = tf.compat.v1.placeholder(tf.bool, [])
        weight = tf.cast(self.is_applied, tf.float32)  # the gradient of a skipped step is zero
        (gradient,) = tf.gradients(tf.reduce_sum(tf.square(read)) * weight, table)
        self.train_op = OURS[name]().apply([(gradient, table)], self.is_applied)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def step(self, is_applied):
        self.session.run(self.train_op, {self.is_applied: is_applied})

    def values(self):
        return {variable.name: self.session.run(variable) for variable in tf.compat.v1.global_variables()}


pytestmark = pytest.mark.usefixtures("graph")


@pytest.mark.parametrize("is_sparse, num_before", [(False, 0), (False, 3), (True, 3)])
@pytest.mark.parametrize("name", sorted(OURS))
def test_a_skipped_step_changes_no_bit_of_weights_moments_and_beta_powers(name, is_sparse, num_before):
    training = Training(name, is_sparse)
    for _ in range(num_before):
        training.step(True)
    before = training.values()
    training.step(False)
    after = training.values()
    assert len(before) == {"adam": 5, "momentum": 2}[name]
    np.testing.assert_equal(after, before)
    training.step(True)
    assert (training.values()["table:0"][0] != before["table:0"][0]).all()


def train(name, steps, build_loss, path=None, *, by_tensorflow=False):
    """Returns all variables by name; if there is a path, continues from its checkpoint, and saves another."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.compat.v1.variable_scope("model"):
            table = tf.compat.v1.get_variable("table", initializer=START)
        step = tf.compat.v1.placeholder(tf.int32, [])
        loss = build_loss(table, step)
        if by_tensorflow:
            train_op = OF_TENSORFLOW[name]().minimize(loss)
        else:
            train_op = OURS[name]().apply([(tf.gradients(loss, table)[0], table)], tf.constant(True))
        saver = tf.compat.v1.train.Saver()
        session.run(tf.compat.v1.global_variables_initializer())
        if path and tf.train.latest_checkpoint(path):
            saver.restore(session, tf.train.latest_checkpoint(path))
        for index in range(steps):
            session.run(train_op, {step: index})
        if path:
            saver.save(session, f"{path}/model.ckpt")
        return {v.op.name: session.run(v) for v in tf.compat.v1.global_variables()}


def gather_rows(rows):
    return lambda table, step: tf.reduce_sum(tf.square(tf.gather(table, tf.gather(rows, step % len(rows)))))


def all_entries(table, step):
    return tf.reduce_sum(tf.square(table)) + 0.0 * tf.cast(step, tf.float32)


SLOTS = {
    "adam": ["beta1_power", "beta2_power", "model/table/Adam", "model/table/Adam_1"],
    "momentum": ["model/table/Momentum"],
}


@pytest.mark.parametrize("name", sorted(OURS))
def test_dense_gradients_are_applied_as_in_tensorflow(name):
    ours = train(name, 5, all_entries)
    expected = train(name, 5, all_entries, by_tensorflow=True)
    assert sorted(ours) == sorted(expected) == sorted(["model/table", *SLOTS[name]])
    np.testing.assert_equal(ours, expected)
    assert (np.abs(ours["model/table"]) < np.abs(START)).all()


@pytest.mark.parametrize("name", sorted(OURS))
def test_rows_that_occur_in_every_step_are_updated_as_in_tensorflow(name):
    all_rows = gather_rows([[0, 1, 2]])
    ours, expected = train(name, 5, all_rows), train(name, 5, all_rows, by_tensorflow=True)
    for variable, value in expected.items():
        np.testing.assert_allclose(ours[variable], value, rtol=1e-6, err_msg=variable)


@pytest.mark.parametrize("name", sorted(OURS))
def test_training_continues_from_a_checkpoint_of_tensorflows_optimizer(name, tmp_path):
    train(name, 3, all_entries, str(tmp_path), by_tensorflow=True)
    continued = train(name, 2, all_entries, str(tmp_path))
    expected = train(name, 5, all_entries, by_tensorflow=True)
    np.testing.assert_equal(continued, expected)


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_row_that_does_not_occur_keeps_its_value(name):
    table = train(name, 4, gather_rows([[1]]))["model/table"]
    np.testing.assert_array_equal(table[[0, 2]], START[[0, 2]])
    assert (np.abs(table[1]) < np.abs(START[1])).all()


def test_rows_change_only_in_steps_that_use_them_unlike_with_tensorflows_adam():
    every_other = gather_rows([[0], [1]])
    one_step, two_steps = (train("adam", steps, every_other)["model/table"] for steps in (1, 2))
    np.testing.assert_array_equal(one_step[0], two_steps[0])
    drifted = train("adam", 2, every_other, by_tensorflow=True)["model/table"]
    assert (drifted[0] < two_steps[0]).all()
