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


def test_no_hook_stands_behind_the_saver_whose_listener_leaves_after_sigterm(monkeypatch):
    monkeypatch.setattr(evaluation.Evaluation, "finish", lambda self, estimator: None)
    settings = types.SimpleNamespace(train=training_config.TrainConfig())
    model = types.SimpleNamespace(path="model", config=settings)
    plan = types.SimpleNamespace(clock=None, course=types.SimpleNamespace(max_steps=3))
    estimator, own = Estimator(), object()
    no_dev = evaluation.Evaluation(None, [], [])
    train_and_evaluate.alone(
        train_and_evaluate.Run(model, plan, lambda is_worker: estimator, None, no_dev, [own], None)
    )
    assert own in estimator.hooks and isinstance(estimator.hooks[-1], saver.RegularSaver)
