"""The model_fn: wiring only. Unpack, model, loss, then one EstimatorSpec per mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr import estimator_api, model_directory
from estimator_asr.training import acoustic_task, hooks, language_task, optimization, schedules, summaries

_TASKS = {"acoustic": acoustic_task, "language": language_task}
UNITS = {"acoustic": "frames", "language": "tokens"}
_SERVING_KEY = "serving_default"


class TrainingPlan(NamedTuple):
    """What only training needs to know."""

    batch_size: float  # mean utterances per step
    steps_per_epoch: float
    max_steps: int
    clock: hooks.Clock


def build_model_fn(
    model: model_directory.ModelDirectory, plan: Optional[TrainingPlan] = None
) -> Callable[..., estimator_api.EstimatorSpec]:
    """Returns the model_fn of the model's Estimator.

    Args:
        model: architecture, vocabularies and hyperparameters.
        plan: needed for TRAIN alone.
    """
    task = _TASKS[model.config.model]

    def model_fn(features, labels, mode):
        if mode == estimator_api.ModeKeys.PREDICT:
            return _predict_spec(task.predict(model, features))
        training = mode == estimator_api.ModeKeys.TRAIN
        forward = task.forward(model, features, labels, training)
        figures = {**forward.losses.ratios(), **forward.ratios}
        if mode == estimator_api.ModeKeys.EVAL:
            return _eval_spec(forward, figures)
        if training:
            return _train_spec(model.config, plan, forward, figures, task.ERROR_RATE)
        raise ValueError(f"mode is {mode!r}, expected train, eval or infer")

    return model_fn


def _predict_spec(predictions):
    outputs = {_SERVING_KEY: estimator_api.PredictOutput(predictions)}
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.PREDICT, predictions=predictions, export_outputs=outputs
    )


def _eval_spec(forward, figures):
    metrics = {tag: ratio.metric() for tag, ratio in figures.items()}
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.EVAL, loss=forward.losses.average(), eval_metric_ops=metrics
    )


def _train_spec(config, plan, forward, figures, error_rate_tag):
    global_step = tf.compat.v1.train.get_or_create_global_step()
    schedule = schedules.build_schedule(config.optimizer, plan.batch_size, plan.steps_per_epoch)
    learning_rate = schedule(global_step)
    optimizer = optimization.build_optimizer(config.optimizer, learning_rate)
    loss = forward.losses.to_minimise()
    update = optimization.minimize(loss, optimizer, config.optimizer.clip_norm, global_step)
    scalars = {tag: ratio.value() for tag, ratio in figures.items()}
    summaries.write_scalars(
        {
            "total-loss": forward.losses.total,
            "learning-rate": learning_rate,
            "gradient-norm": update.gradient_norm,
            **scalars,
        }
    )
    progress = hooks.ProgressHook(
        {"loss": scalars["avg-loss"], "error_rate": scalars[error_rate_tag], "inputs": forward.num_inputs},
        unit=UNITS[config.model],
        max_steps=plan.max_steps,
        seconds=config.train.progress_seconds,
        num_replicas=optimization.num_replicas(),
        num_parameters=update.num_parameters,
        clock=plan.clock,
    )
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.TRAIN, loss=loss, train_op=update.train_op, training_hooks=[progress]
    )
