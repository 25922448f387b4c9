import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.models import normalisation
from estimator_asr.models.tasks import metrics
from estimator_asr.training.optimizer import gradient_accumulation, optimization

SETTINGS = training_config.OptimizerConfig(adam_epsilon=1e-6, clip_norm=1.0)


class Training:
    """Learns a vector and a table from rows [token, value]; each update uses several batches."""

    def __init__(self, num_batches, *, scaled=False):
        self.rows = tf.compat.v1.placeholder(tf.float32, [None, 2])
        weights = tf.compat.v1.get_variable("weights", initializer=[0.5, -0.25])
        table = tf.compat.v1.get_variable("table", initializer=np.float32([[1], [2], [3], [4]]))
        tokens = tf.gather(table, tf.cast(self.rows[:, 0], tf.int32))[:, 0]
        errors = tf.square(tf.linalg.matvec(self.rows, weights) + tokens - self.rows[:, 1])
        num_labels = tf.reduce_sum(self.rows[:, 0] + 1)  # rows have different numbers of labels
        losses = metrics.Losses(tf.reduce_sum(errors), {}, num_labels)
        self.average = tf.compat.v1.get_variable("average", initializer=0.0, trainable=False)
        normalisation.defer_update(self.average, 0.1 * (tf.reduce_mean(self.rows[:, 1]) - self.average))
        self.step = tf.compat.v1.train.create_global_step()
        scale = optimization.LossScale() if scaled else None
        optimizer = optimization.build_optimizer(SETTINGS, tf.constant(0.1))
        minimizer = optimization.Minimizer(optimizer, SETTINGS.clip_norm, self.step, scale)
        if num_batches == 1:
            self.update = minimizer.minimize(losses.to_minimise())
        else:
            self.update = gradient_accumulation.minimize(losses, minimizer, num_batches)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())
        self.start()

    def start(self):
        """Resets the sums, as a new session does."""
        self.session.run(tf.compat.v1.local_variables_initializer())
        for hook in self.update.hooks:
            hook.after_create_session(self.session, None)

    def run(self, rows):
        """Runs a step and returns its metrics."""
        names = ("loss", "is_finite", "gradient_norm", "number")
        shown = {name: getattr(self.update, name) for name in names}
        values, _ = self.session.run([shown, self.update.train_op], {self.rows: np.float32(rows)})
        for hook in self.update.hooks:
            hook.after_run(tf.compat.v1.train.SessionRunContext(None, self.session), None)
        return values

    def values(self):
        return {v.op.name: self.session.run(v) for v in tf.compat.v1.global_variables()}


def train(num_batches, batches, **options):
    with tf.Graph().as_default():
        training = Training(num_batches, **options)
        shown = [training.run(batch) for batch in batches]
        return training.values(), shown


BATCHES = [[[0, 1]], [[1, 2], [1, 3], [2, 0]], [[3, 5], [0, 2]], [[2, 1]], [[0, 4], [1, 1]], [[0, 0]]]
JOINED = [[*BATCHES[0], *BATCHES[1]], [*BATCHES[2], *BATCHES[3]], [*BATCHES[4], *BATCHES[5]]]


@pytest.mark.parametrize("scaled", [False, True])
def test_accumulated_batches_equal_one_batch_of_all_rows(scaled):
    values, shown = train(2, BATCHES, scaled=scaled)
    expected, _ = train(1, JOINED)
    assert values["global_step"] == expected["global_step"] == 3
    for name in ("weights", "table", "weights/Adam", "table/Adam", "table/Adam_1", "beta1_power"):
        np.testing.assert_allclose(values[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert [int(step["number"]) for step in shown] == [0, 0, 1, 1, 2, 2]


def test_table_rows_that_do_not_occur_are_unchanged():
    values, _ = train(2, [[[0, 5]], [[1, 5]], [[1, 5]], [[1, 5]]])
    np.testing.assert_array_equal(values["table"][2:], [[3], [4]])
    one_update, _ = train(2, [[[0, 5]], [[1, 5]]])
    assert values["table"][0] == one_update["table"][0] != 1
    assert values["table"][1] != one_update["table"][1]


def test_moving_averages_get_the_mean_of_the_batches():
    values, _ = train(2, [[[0, 1]], [[1, 5]]])
    assert values["average"] == pytest.approx(0.1 * 3)


def test_the_loss_is_from_the_batch_and_the_norm_from_the_last_update():
    _, shown = train(2, BATCHES)
    _, joined = train(1, JOINED)
    assert shown[0]["loss"] == pytest.approx((-0.25 + 1 - 1) ** 2)  # 0.5 x 0 - 0.25 x 1 + table[0] - 1
    assert [step["gradient_norm"] for step in shown[:2]] == [0, 0]
    assert shown[2]["gradient_norm"] == pytest.approx(joined[0]["gradient_norm"], rel=1e-5)


def test_a_non_finite_batch_skips_the_whole_update_and_only_that():
    bad = [[0, float("nan")]]
    values, shown = train(2, [*BATCHES[:2], bad, BATCHES[3], *BATCHES[4:]])
    assert [bool(step["is_finite"]) for step in shown] == [True, True, False, True, True, True]
    assert np.isnan(shown[2]["gradient_norm"])
    expected, _ = train(2, [*BATCHES[:2], *BATCHES[4:]])
    assert values.pop("global_step") == expected.pop("global_step") + 1 == 3
    np.testing.assert_equal(values, expected)


def test_an_overflow_reduces_the_loss_scale_and_is_not_a_bad_batch():
    values, shown = train(2, [[[0, 1]], [[0, 2e13]], [[0, 1]], [[0, 1]]], scaled=True)
    assert [bool(step["is_finite"]) for step in shown] == [True] * 4
    assert values["loss_scale/scale"] == 2**14 and values["loss_scale/good_updates"] == 1


def test_an_interrupted_training_continues_at_the_first_batch_of_the_update():
    expected, _ = train(2, BATCHES[:4])
    with tf.Graph().as_default():
        training = Training(2)
        for batch in BATCHES[:3]:
            training.run(batch)
        training.start()
        for batch in BATCHES[2:4]:
            training.run(batch)
        values = training.values()
    for name in expected:
        np.testing.assert_allclose(values[name], expected[name], rtol=1e-6, err_msg=name)
