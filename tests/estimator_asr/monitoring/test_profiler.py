from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.monitoring import profiler
from tfrecord_builder import errors


class Profiler:
    """Stands for TensorFlow's, and notes what is asked of it."""

    def __init__(self, monkeypatch):
        self.calls = []
        real = profiler.tf.profiler.experimental
        monkeypatch.setattr(real, "start", lambda directory: self.calls.append("start"))
        monkeypatch.setattr(real, "stop", lambda: self.calls.append("stop"))
        monkeypatch.setattr(real, "Trace", self.trace)

    def trace(self, name, step_num, _r):
        profile = self

        class Trace:
            def __enter__(self):
                profile.calls.append(step_num)

            def __exit__(self, *_):
                pass

        return Trace()


def run(hook, first_step, num_steps):
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        scaffold = tf.compat.v1.train.Scaffold(init_op=step.assign(first_step))
        advance = step.assign_add(1)
        with tf.compat.v1.train.SingularMonitoredSession([hook], scaffold=scaffold) as session:
            for _ in range(num_steps):
                session.run(advance)


@pytest.mark.parametrize(
    "first_step, num_steps, calls",
    [
        (0, 8, ["start", 3, 4, 5, "stop"]),
        (0, 4, ["start", 3, 4, "stop"]),  # training ends
        (3, 4, ["start", 4, 5, "stop"]),  # it continues inside the range
        (5, 4, []),
        (0, 2, []),
    ],
)
def test_exactly_the_given_steps_are_recorded(monkeypatch, first_step, num_steps, calls):
    recorded = Profiler(monkeypatch)
    run(profiler.ProfileHook(3, 5, "unused"), first_step, num_steps)
    assert recorded.calls == calls


def test_the_profile_is_where_tensorboard_looks_and_has_the_ops_of_a_step(tmp_path):
    run(profiler.ProfileHook(1, 2, str(tmp_path)), 0, 3)
    (path,) = pathlib.Path(tmp_path).glob("plugins/profile/*/*.xplane.pb")
    content = path.read_bytes()
    assert b"AssignAddVariableOp" in content and b"train" in content


@pytest.mark.parametrize("steps", [(5,), (5, 4), (1, 2, 3)])
def test_an_invalid_range_of_steps_is_refused(steps):
    with pytest.raises(errors.UserError, match="--profile_steps is 5|--profile_steps is 1,2,3, expected"):
        training_config.DisplayConfig(profile_steps=steps)
    assert training_config.DisplayConfig(profile_steps=(5, 5)).profile_steps == (5, 5)
