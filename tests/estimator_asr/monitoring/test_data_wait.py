from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.monitoring import data_wait


def scalars(path):
    found = {}
    for file in path.glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            found.update({(event.step, value.tag): value.simple_value for value in event.summary.value})
    return found


class Training:
    """Steps of one second by hand, of which some is waiting."""

    def __init__(self, path, every_steps=2):
        self.seconds, self.step = 0.0, 0
        self.hook = data_wait.DataWaitHook(
            "wait",
            "step",
            every_steps=every_steps,
            model_dir=str(path),
            clock=self,
            doctor_command="DOCTOR",
        )
        self.hook.begin()
        self.hook.after_create_session(None, None)

    def run_steps(self, *waits):
        for wait in waits:
            assert self.hook.before_run(None).fetches == ["wait", "step"]
            self.seconds += 1.0
            values = tf.compat.v1.train.SessionRunValues([wait, self.step], None, None)
            with tf.Graph().as_default():
                self.hook.after_run(None, values)
            self.step += 1


@pytest.fixture
def warnings(monkeypatch):
    said = []
    monkeypatch.setattr(data_wait.logging, "warning", lambda text, *values: said.append(text % values))
    return said


def test_the_fraction_of_each_group_of_steps_without_the_first_step(tmp_path, warnings):
    Training(tmp_path).run_steps(0.9, 0.01, 0.03, 0.0, 0.1)
    shown = scalars(tmp_path)
    assert set(shown) == {(3, "data_wait_fraction"), (5, "data_wait_fraction")}
    np.testing.assert_allclose([shown[key] for key in sorted(shown)], [0.02, 0.05], rtol=1e-5)
    assert warnings == []


def test_long_waiting_is_warned_of_once(tmp_path, warnings):
    Training(tmp_path).run_steps(0.0, 0.3, 0.3, 0.5, 0.5)
    assert len(warnings) == 1
    assert "steps wait for data 30 % of the time, expected less than 2 %" in warnings[0]
    assert warnings[0].endswith("time the input alone: DOCTOR")
