from __future__ import annotations

import time

import tensorflow as tf

from estimator_asr.training import step_time


def test_the_clock_stands_still_between_pause_and_resume():
    now = [100.0]
    clock = step_time.Clock(lambda: now[0])
    now[0] += 5
    assert clock.seconds == 0
    clock.resume()
    now[0] += 2
    assert clock.seconds == 2
    clock.pause()
    now[0] += 100
    clock.resume()
    clock.resume()
    now[0] += 1
    assert clock.seconds == 3


def test_the_time_until_the_labels_arrive_is_measured():
    def sleep(value):
        time.sleep(0.05)
        return value

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        slow = tf.data.Dataset.range(9).map(lambda index: tf.numpy_function(sleep, [index], tf.int64))
        labels = {"y": tf.compat.v1.data.make_one_shot_iterator(slow).get_next()}
        _, timed, wait = step_time.time_input({"x": tf.constant(0)}, labels)
        waited, numbers = zip(*(session.run([wait, timed["y"]]) for _ in range(2)))
    assert min(waited) > 0.03 and numbers == (0, 1)


def test_the_model_runs_only_after_the_clock_was_read():
    """Otherwise a single thread would count the model's time as waiting."""
    with tf.Graph().as_default():
        given = tf.compat.v1.placeholder(tf.float32, [])
        features, _, wait = step_time.time_input({"x": given}, {})
        arrived = wait.op.inputs[0].op
        assert arrived in features["x"].op.control_inputs
        assert given.op in arrived.control_inputs
