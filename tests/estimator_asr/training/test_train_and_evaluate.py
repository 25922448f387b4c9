from __future__ import annotations

import types

from estimator_asr import training_config
from estimator_asr.checkpointing import saver
from estimator_asr.training import evaluation, train_and_evaluate


class Estimator:
    def train(self, input_fn, hooks, max_steps, saving_listeners):
        self.hooks = hooks

    def evaluate(self, *args, **kwargs):
        raise AssertionError("there is no dev")


def test_the_saver_hook_comes_last_because_its_listener_raises_after_sigterm(monkeypatch):
    monkeypatch.setattr(evaluation.Evaluation, "finish", lambda self, estimator: None)
    settings = types.SimpleNamespace(train=training_config.TrainConfig())
    model = types.SimpleNamespace(path="model", config=settings)
    plan = types.SimpleNamespace(clock=None, course=types.SimpleNamespace(max_steps=3))
    estimator = Estimator()
    no_dev = evaluation.Evaluation(None, [], [])
    train_and_evaluate.alone(
        train_and_evaluate.Run(model, plan, lambda is_worker: estimator, None, no_dev, None)
    )
    assert len(estimator.hooks) == 2 and isinstance(estimator.hooks[-1], saver.RegularSaver)
