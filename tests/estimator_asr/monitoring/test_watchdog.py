import os
import types

import alarm_cases
import event_files
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.monitoring import observations, watchdog

BLANK = {"blank-fraction": 1.0}
pytestmark = pytest.mark.usefixtures("graph")


@pytest.fixture
def dog(tmp_path):
    return watchdog.Watchdog(alarm_cases.TRAINING._replace(model_dir=str(tmp_path)))


@pytest.fixture
def estimator(tmp_path):
    return types.SimpleNamespace(eval_dir=lambda: str(tmp_path / "eval"))


def test_an_alarm_is_logged_written_with_time_step_and_kind_and_shown_in_tensorboard(dog, tmp_path, log):
    for step in alarm_cases.repeat(BLANK, last_step=6000):
        dog.add_step(step)
    (line,) = log
    assert line.startswith("watchdog: step 6000: 100 % of the frames are blank")
    (written,) = (tmp_path / "alarms.log").read_text(encoding="utf-8").splitlines()
    time, step, kind, sentence = written.split("\t")
    assert len(time) == 19 and (step, kind) == ("6000", "all-blank") and line.endswith(sentence)
    assert watchdog.last_alarm(str(tmp_path)) == (6000, sentence)
    ((event_step, value),) = event_files.read_values(tmp_path)
    assert (event_step, value.tag) == (6000, "alarms/all-blank")
    assert value.metadata.plugin_data.plugin_name == "text"
    assert tf.make_ndarray(value.tensor).item().decode("utf-8") == sentence


def test_the_same_alarm_is_raised_again_only_after_ten_spans(dog, log):
    for step in alarm_cases.repeat(BLANK, count=206, last_step=16100):
        dog.add_step(step)
    steps = [int(line.split()[2].rstrip(":")) for line in log if "frames are blank" in line]
    assert steps == [6050, 11050, 16050]


def test_the_first_observation_raises_nothing(dog, estimator, tmp_path, log):
    dog.add_step(observations.ObservedStep(1, {}))
    dog.add_evaluation(estimator, "", {"global_step": 1, "loss": 1.0})
    assert log == [] and not os.listdir(tmp_path)


def test_evaluations_are_compared_with_the_steps_before(dog, estimator, tmp_path, log):
    for step in alarm_cases.repeat({}, last_step=6000, error_rate=0.125):
        dog.add_step(step)
    for step in (6000, 6500):
        assert log == []
        metrics = {"global_step": np.int64(step), "token-error-rate": np.float32(0.75)}
        dog.add_evaluation(estimator, "", metrics)
    (line,) = log
    said = "watchdog: step 6500: the error rate is 12.5 % in training but 75 % on dev; likely"
    assert line.startswith(said)
    # Another process may write the event file of training, and TensorBoard reads one file per directory.
    assert [value.tag for _, value in event_files.read_values(tmp_path / "eval")] == ["alarms/dev-gap"]
    assert not list(tmp_path.glob("events.*"))


def test_an_evaluation_without_any_observed_step_is_checked_too(dog, estimator, log):
    metrics = {"global_step": np.int64(9000), "loss": np.float32("nan"), "length-ratio": np.float32(0)}
    dog.add_evaluation(estimator, "", metrics)
    assert [line.split(":")[1] for line in log] == [" step 9000"] * 2
    assert "metrics on dev are NaN (loss)" in log[0] and "hardly anything on dev (0 %" in log[1]


def test_the_hook_decodes_only_every_so_many_steps_and_keeps_every_loss(session):
    number, loss = tf.compat.v1.placeholder(tf.int64, []), tf.compat.v1.placeholder(tf.float32, [])
    decoded, observed = [], []

    def decode(value):
        decoded.append(float(value))
        return value

    scalars = {"avg-loss": loss, "token-error-rate": tf.numpy_function(decode, [loss / 2], tf.float32)}
    dog = types.SimpleNamespace(steps_between=3, add_step=observed.append)
    hook = watchdog.WatchdogHook(dog, number, scalars)
    for step, value in enumerate([8.0, 7.0, float("inf"), 5.0, 4.0]):
        fetches = hook.before_run(None).fetches
        results = session.run(fetches, {number: 40 + step, loss: value})
        hook.after_run(None, tf.compat.v1.train.SessionRunValues(results, None, None))
    assert decoded == [4.0, 2.5]
    first, second = observed
    assert (first.number, first.losses) == (41, (8.0,))
    assert (second.number, second.losses) == (44, (7.0, 5.0))  # Inf is left out
    assert second.metrics == {"avg-loss": 5.0, "token-error-rate": 2.5}


def test_last_alarm_ignores_a_missing_file_and_a_truncated_line(tmp_path):
    assert watchdog.last_alarm(str(tmp_path)) is None
    (tmp_path / "alarms.log").write_text("now\t7\tlength\tlong\nnow\t8\tle", encoding="utf-8")
    assert watchdog.last_alarm(str(tmp_path)) == (7, "long")
