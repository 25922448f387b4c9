"""Checkpoint saver hook whose steps do not depend on interruptions."""

from __future__ import annotations

from estimator_asr.estimator import estimator_api


class RegularSaver(estimator_api.CheckpointSaverHook):
    """Saves at multiples of `save_steps`, and at the first and last step of a session.

    TensorFlow's hook counts from the first step of the session: after an interruption at step 137 it saves,
    and evaluates, at 237 instead of 200, so early stopping would depend on the interruption.
    """

    def __init__(self, model_dir: str, save_steps: int):
        super().__init__(model_dir, save_steps=save_steps, save_graph_def=False)
        self._save_steps = save_steps

    def after_create_session(self, session, coord):
        super().after_create_session(session, coord)
        step = self._timer.last_triggered_step()
        self._timer.update_last_triggered_step(step - step % self._save_steps)
