"""Checkpoints at the same steps, however often training was interrupted."""

from __future__ import annotations

from estimator_asr import estimator_api


class RegularSaver(estimator_api.CheckpointSaverHook):
    """Saves at the multiples of `save_steps`, besides the first and the last step of a session.

    TensorFlow's own counts from the step at which the session began: after an interruption at step 137 it
    saves, and evaluates, at 237 instead of 200, and what is counted over evaluations would come out otherwise
    than without the interruption.
    """

    def __init__(self, model_dir: str, save_steps: int):
        super().__init__(model_dir, save_steps=save_steps, save_graph_def=False)
        self._save_steps = save_steps

    def after_create_session(self, session, coord):
        super().after_create_session(session, coord)
        step = self._timer.last_triggered_step()
        self._timer.update_last_triggered_step(step - step % self._save_steps)
