from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.checkpointing import checkpoints
from estimator_asr.checkpointing import saver as regular_saver
from estimator_asr.estimator import estimator_api


class Saves(estimator_api.CheckpointSaverListener):
    def __init__(self):
        self.steps = []

    def after_save(self, session, global_step_value):
        self.steps.append(int(global_step_value))


def train(model_dir, last_step) -> list[int]:
    """Trains until `last_step`; returns the steps that are saved."""
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        advance = tf.compat.v1.assign_add(step, 1)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVERS, tf.compat.v1.train.Saver())
        saver, saves = regular_saver.RegularSaver(model_dir, 10), Saves()
        saver._listeners.append(saves)
        with tf.compat.v1.train.MonitoredTrainingSession(
            checkpoint_dir=model_dir, hooks=[saver], save_checkpoint_secs=None, save_summaries_steps=None
        ) as session:
            while session.run(advance) < last_step:
                pass
    return saves.steps


@pytest.mark.parametrize("interrupted_at", [7, 10, 13])
def test_after_an_interruption_the_same_steps_are_saved(tmp_path, interrupted_at):
    path = str(tmp_path)
    before = [10] if interrupted_at > 10 else []
    assert train(path, interrupted_at) == [0, *before, interrupted_at]
    after = [step for step in (10, 20, 30) if step > interrupted_at]
    assert train(path, 35) == [interrupted_at, *after, 35]
    assert checkpoints.latest(path).endswith("model.ckpt-35")
