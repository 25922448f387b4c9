"""The model_fn: wiring only. Unpack, model, loss, then one EstimatorSpec per mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from estimator_asr import estimator_api, model_directory
from estimator_asr.training import (
    acoustic_task,
    data_wait,
    language_task,
    objectives,
    optimization,
    schedules,
    step_hooks,
    summaries,
    worst_batch,
)

_TASKS = {"acoustic": acoustic_task, "language": language_task}
_SERVING_KEY = "serving_default"


def build_model_fn(
    model: model_directory.ModelDirectory, plan: Optional[step_hooks.TrainingPlan] = None
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
        if mode == estimator_api.ModeKeys.EVAL:
            return _eval_spec(forward)
        if training:
            return _train_spec(model, plan, features, labels, forward, task.ERROR_RATE)
        raise ValueError(f"mode is {mode!r}, expected train, eval or infer")

    return model_fn


def _predict_spec(predictions):
    outputs = {_SERVING_KEY: estimator_api.PredictOutput(predictions)}
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.PREDICT, predictions=predictions, export_outputs=outputs
    )


def _eval_spec(forward):
    metrics = {tag: ratio.metric() for tag, ratio in forward.figures().items()}
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.EVAL, loss=forward.losses.average(), eval_metric_ops=metrics
    )


def _train_spec(model, plan, features, labels, forward, error_rate_tag):
    config = model.config
    global_step = tf.compat.v1.train.get_or_create_global_step()
    course = plan.course
    schedule = schedules.build_schedule(config.optimizer, course.batch_size, course.steps_per_epoch)
    learning_rate = schedule(global_step + course.step_offset)
    optimizer = optimization.build_optimizer(config.optimizer, learning_rate)
    loss = forward.losses.to_minimise()
    update = optimization.minimize(loss, optimizer, config.optimizer.clip_norm, global_step)
    scalars = {
        "total-loss": forward.losses.total,
        "learning-rate": learning_rate,
        "gradient-norm": update.gradient_norm,
        **{tag: ratio.value() for tag, ratio in forward.figures().items()},
    }
    summaries.write_scalars(scalars)
    worst_batch.remember(features, labels)
    step = objectives.Step(
        update.number,
        features,
        labels,
        loss,
        update.is_finite,
        update.gradients,
        update.gradient_norm,
        scalars,
        forward.num_inputs,
        data_wait.time_input(features),
    )
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.TRAIN,
        loss=loss,
        train_op=update.train_op,
        training_hooks=step_hooks.build(model, plan, step, error_rate_tag, update.num_parameters),
    )
