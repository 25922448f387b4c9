from __future__ import annotations

import pathlib

import paths
import programs
import pytest
import tensorflow as tf

from estimator_asr.monitoring import histograms

PROGRAM = paths.SUPPORT / "histograms_of_replicas.py"


def read(model_dir):
    """Returns step to tag to (count, minimum, maximum) of the histograms in the event files."""
    found = {}
    for path in pathlib.Path(model_dir).glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.HasField("histo"):
                    figures = value.histo.num, value.histo.min, value.histo.max
                    found.setdefault(event.step, {})[value.tag] = figures
    return found


def run(model_dir, steps, pairs, num_steps):
    step = tf.compat.v1.train.get_or_create_global_step()
    hook = histograms.build_hook(pairs, steps, str(model_dir))
    assert not tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
    advance = step.assign_add(1)
    with tf.compat.v1.train.SingularMonitoredSession([hook]) as session:
        for _ in range(num_steps):
            session.run(advance)


def make_variable():
    return tf.compat.v1.get_variable("scope/w", initializer=[1.0, 2.0, 4.0])


def test_weights_and_gradients_have_histograms_every_so_many_steps(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.variable_scope("model"):
        run(tmp_path, 3, [(tf.constant([-1.0, 0.0, 0.5]), make_variable())], 7)
    expected = {"weights/model/scope/w": (3.0, 1.0, 4.0), "gradients/model/scope/w": (3.0, -1.0, 0.5)}
    assert read(tmp_path) == {1: expected, 4: expected, 7: expected}


def test_an_embedding_shows_the_rows_that_have_a_gradient_without_nan_and_inf(tmp_path):
    with tf.Graph().as_default():
        rows = tf.IndexedSlices(tf.constant([5.0, float("nan"), float("inf")]), tf.constant([0, 1, 2]))
        run(tmp_path, 1, [(rows, make_variable())], 1)
    assert read(tmp_path)[1]["gradients/scope/w"] == (1.0, 5.0, 5.0)


@pytest.mark.slow
def test_under_replicas_there_is_one_histogram_of_their_sum(tmp_path):
    done = programs.run(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    found = read(tmp_path)[1]
    assert found["gradients/scope/w"] == (3.0, 0.0, 2.0)  # the mean of 1 and 3, of the last weight
    assert found["weights/scope/w"][0] == 3.0 and len(found) == 2
