"""The Estimator's model_fn: connects input, model, loss and optimizer, and returns an EstimatorSpec."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.experiment import checkpoints, estimator_api, model_directory
from estimator_asr.models import replicas
from estimator_asr.models.tasks import metrics, tasks
from estimator_asr.training import plan as plan_lib
from estimator_asr.training import step_time
from estimator_asr.training.checkpointing import evaluation_log
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import optimization, schedules

_SERVING_KEY = "serving_default"
_ENCODERS = re.compile(r"acoustic/encoder/|(?:language|punctuation)/layer_\d+/")


class StepTensors(NamedTuple):
    """Tensors of a training step that hooks use; they come from the first replica unless noted otherwise."""

    update: optimization.TrainingUpdate  # has the step's number, and the loss and gradients of all replicas
    features: dict[str, tf.Tensor]  # features that the model_fn received
    labels: dict[str, tf.Tensor]  # labels that the model_fn received
    wait: tf.Tensor  # float64 [], seconds that the step waited for its input
    scalars: dict[str, tf.Tensor]  # float32 [] each, keyed by TensorBoard tag
    num_inputs: tf.Tensor  # int32 [], number of frames or tokens, excluding padding


BuildHook = Callable[[StepTensors], estimator_api.SessionRunHook]


def build_model_fn(
    model: model_directory.ModelDirectory,
    plan: Optional[plan_lib.TrainingPlan] = None,
    build_hooks: Sequence[BuildHook] = (),
) -> Callable[..., estimator_api.EstimatorSpec]:
    """Returns the model_fn of the model's Estimator.

    Args:
        plan: the training plan; required only in TRAIN mode.
        build_hooks: functions that return a session hook for the tensors of a training step.
    """
    task = tasks.for_model(model)

    def model_fn(features, labels, mode):
        if mode == estimator_api.ModeKeys.PREDICT:
            predictions = task.predict(features)
            outputs = {_SERVING_KEY: estimator_api.PredictOutput(predictions)}
            return estimator_api.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
        training = mode == estimator_api.ModeKeys.TRAIN
        if training:
            features, labels, wait = step_time.time_input(features, labels)
        cast = functools.partial(_cast_kernels, strategies.product_type(model.config.train, training))
        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), custom_getter=cast):
            forward = task.forward(features, labels, training)
        variables = tf.compat.v1.trainable_variables()
        checkpoints.check_variables(checkpoints.find_latest(model.path), model, variables)
        if mode == estimator_api.ModeKeys.EVAL:
            values = {tag: ratio.metric() for tag, ratio in forward.metrics().items()}
            loss = forward.losses.average()
            return estimator_api.EstimatorSpec(mode, loss=loss, eval_metric_ops=values)
        if not training:
            raise ValueError(f"mode is {mode!r}, expected train, eval or infer")
        update, scalars = _update(model, plan, forward, task.rate_of)
        step = StepTensors(update, features, labels, wait, scalars, forward.num_inputs)
        return estimator_api.EstimatorSpec(
            mode,
            # Under a strategy, Estimator adds up the replicas' losses.
            loss=shown_loss(update.loss) / replicas.num_replicas(),
            train_op=update.train_op,
            training_hooks=[*update.hooks, *(build_hook(step) for build_hook in build_hooks)],
        )

    return model_fn


def _cast_kernels(product_type, getter, name, *args, **kwargs):
    """Returns a variable, cast to product_type if it is an encoder's kernel or bias.

    Embeddings, norms and heads are not cast.
    """
    variable = getter(name, *args, **kwargs)
    is_cast = _ENCODERS.match(name) and name.endswith(("/kernel", "/bias"))
    return tf.cast(variable, product_type) if is_cast and product_type != variable.dtype else variable


def shown_loss(loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss, or Inf if it is NaN: on NaN, Estimator would stop before this package's hooks run."""
    return tf.where(tf.math.is_finite(loss), loss, math.inf)


def _update(model, plan, forward, rate_of):
    """Returns the weight update and the step's metrics, keyed by tag; adds a summary for each metric."""
    config, global_step = model.config, tf.compat.v1.train.get_or_create_global_step()
    history = evaluation_log.History(model.path, config.spec.error_rate)
    schedule = schedules.build_schedule(config.optimizer, plan.batch_size, plan.steps_per_epoch, history)
    learning_rate = schedule(tf.cast(global_step, tf.float64) + plan.step_offset)
    optimizer = optimization.build_optimizer(config.optimizer, learning_rate, rate_of=rate_of)
    update = _build_update(config, forward.losses, optimizer, global_step)
    scalars = {
        "total-loss": forward.losses.total,
        "learning-rate": learning_rate,
        "gradient-norm": update.gradient_norm,
        "gradient-zero-fraction": metrics.zero_fraction(update.gradients).value(),
        **update.scalars,
        **{tag: ratio.value() for tag, ratio in forward.metrics().items()},
    }
    with tf.compat.v1.name_scope(None):  # otherwise tags would begin with the current name scope
        for tag, value in scalars.items():
            tf.compat.v1.summary.scalar(tag, value)
    return update, scalars


def _build_update(config, losses, optimizer, global_step):
    scale = optimization.LossScale() if config.train.precision == "float16" else None
    minimizer = optimization.Minimizer(optimizer, config.optimizer.clip_norm, global_step, scale)
    num_batches = config.optimizer.gradient_accumulation_steps
    if num_batches == 1:
        return minimizer.minimize(losses.to_minimise())
    from estimator_asr.training.optimizer import gradient_accumulation

    return gradient_accumulation.minimize(losses, minimizer, num_batches)
