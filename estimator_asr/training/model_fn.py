"""The model_fn: wiring only. Unpack, model, loss, then one EstimatorSpec per mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from estimator_asr import estimator_api, model_directory
from estimator_asr.checkpointing import checkpoints, evaluation_log
from estimator_asr.diagnostics import memory_probe
from estimator_asr.models import losses, replicas
from estimator_asr.tasks import metrics, objective, registry
from estimator_asr.training import step_hooks, step_time
from estimator_asr.training.optimizer import gradient_accumulation, optimization, schedules

_SERVING_KEY = "serving_default"


def build_model_fn(
    model: model_directory.ModelDirectory, plan: Optional[step_hooks.TrainingPlan] = None
) -> Callable[..., estimator_api.EstimatorSpec]:
    """Returns the model_fn of the model's Estimator.

    Args:
        model: architecture, vocabularies and hyperparameters.
        plan: needed for TRAIN alone.
    """
    task = registry.of(model.config)

    def model_fn(features, labels, mode):
        if mode == estimator_api.ModeKeys.PREDICT:
            return _predict_spec(task.predict(model, features))
        training = mode == estimator_api.ModeKeys.TRAIN
        timed = (step_time.time_input if training else step_time.TimedInput)(features, labels)
        kernel = plan.ctc_kernel if plan else losses.CLASSIC
        forward = task.forward(model, timed.features, timed.labels, training, kernel)
        variables = tf.compat.v1.trainable_variables()
        checkpoints.check_variables(checkpoints.stated(model.path), model, variables)
        if mode == estimator_api.ModeKeys.EVAL:
            return _eval_spec(forward)
        if training:
            return _train_spec(model, plan, timed, forward)
        raise ValueError(f"mode is {mode!r}, expected train, eval or infer")

    return model_fn


def _predict_spec(predictions):
    outputs = {_SERVING_KEY: estimator_api.PredictOutput(predictions)}
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.PREDICT, predictions=predictions, export_outputs=outputs
    )


def _eval_spec(forward):
    pairs = {tag: ratio.metric() for tag, ratio in forward.metrics().items()}
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.EVAL, loss=forward.losses.average(), eval_metric_ops=pairs
    )


def _train_spec(model, plan, timed, forward):
    config, course = model.config.optimizer, plan.course
    global_step = tf.compat.v1.train.get_or_create_global_step()
    history = evaluation_log.History(model.path, model.config.spec.error_rate)
    schedule = schedules.build_schedule(config, course.batch_size, course.steps_per_epoch, history)
    learning_rate = schedule(global_step + course.step_offset)
    optimizer = optimization.build_optimizer(config, learning_rate)
    update = _build_update(model.config, forward.losses, optimizer, global_step)
    scalars = {
        "total-loss": forward.losses.total,
        "learning-rate": learning_rate,
        "gradient-norm": update.gradient_norm,
        "gradient-zero-fraction": metrics.zero_fraction(update.gradients).value(),
        **update.scalars,
        **{tag: ratio.value() for tag, ratio in forward.metrics().items()},
    }
    _write_scalars(scalars)
    memory_probe.remember(timed.features, timed.labels)
    step = objective.Step(
        number=update.number,
        features=timed.features,
        labels=timed.labels,
        loss=update.loss,
        is_finite=update.is_finite,
        gradients=update.gradients,
        gradient_norm=update.gradient_norm,
        scalars=scalars,
        num_inputs=forward.num_inputs,
        wait=timed.wait,
        num_parameters=update.num_parameters,
    )
    return estimator_api.EstimatorSpec(
        estimator_api.ModeKeys.TRAIN,
        # Under a strategy the Estimator adds up what the replicas show.
        loss=objective.shown_loss(update.loss) / replicas.num_replicas(),
        train_op=update.train_op,
        training_hooks=[*update.hooks, *step_hooks.build(model, plan, step)],
    )


def _write_scalars(values):
    """Adds one scalar summary per tag; the tag is shown as it is, whatever name scope is open."""
    with tf.compat.v1.name_scope(None):
        for tag, value in values.items():
            tf.compat.v1.summary.scalar(tag, value)


def _build_update(config, losses, optimizer, global_step):
    scale = optimization.build_loss_scale(config.train.precision)
    num_batches, clip_norm = config.optimizer.gradient_accumulation_steps, config.optimizer.clip_norm
    if num_batches > 1:
        return gradient_accumulation.minimize(losses, optimizer, clip_norm, global_step, num_batches, scale)
    return optimization.minimize(losses.to_minimise(), optimizer, clip_norm, global_step, scale)
