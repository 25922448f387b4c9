"""The Estimator loop: everything between a model directory and its checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api, model_directory
from estimator_asr.inputs import damage, input_fn, stretches
from estimator_asr.models import losses
from estimator_asr.training import (
    batch_dump,
    ctc_check,
    exporters,
    hooks,
    label_checks,
    model_fn,
    progress,
    step_hooks,
    strategies,
)
from estimator_asr.training import course as course_lib
from tfrecord_builder import dataset_info, errors

DEV_SPLIT = "dev"


def train(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
) -> None:
    """Trains until the config's number of steps or epochs, evaluating each checkpoint on the dev split.

    Args:
        model: created or continued.
        infos, data_dirs: the data; checked against the model by model_directory.check_data.

    Raises:
        errors.UserError: a split or shard is not there, the checkpoint does not fit, or the loss is NaN.
        hooks.Terminated: SIGTERM came; a checkpoint is saved.
    """
    config = model.config
    strategy = strategies.build_strategy(config.train)
    num_replicas = strategy.num_replicas_in_sync if strategy else 1
    course = course_lib.plan(model, infos, data_dirs, _first_step(model))
    course_lib.log(course, config.model, config.optimizer, num_replicas)
    if course.first_step >= course.max_steps and _is_exported(model.path, course.first_step):
        logging.info(
            "%s: already at step %d of %d, nothing to do", model.path, course.first_step, course.max_steps
        )
        return
    stretches.save(model.path, course.history)
    label_checks.check(infos, data_dirs, model)
    plan = step_hooks.TrainingPlan(
        course,
        progress.Clock(),
        _choose_ctc_kernel(model),
        batch_dump.fingerprint(infos, course_lib.TRAIN_SPLIT),
    )
    estimator = _build_estimator(model, plan, strategy)
    train_input_fn = input_fn.build_input_fn(
        infos,
        data_dirs,
        course_lib.TRAIN_SPLIT,
        config.input,
        model=config.model,
        training=True,
        seed=config.train.seed,
        start=course.start,
        num_replicas=num_replicas,
        fixed_shapes=config.train.xla,
    )
    eval_input_fn = _build_eval_input_fn(config, infos, data_dirs)
    receiver_fn = exporters.build_features_receiver_fn(config)
    with contextlib.ExitStack() as explained:
        explained.enter_context(damage.explain(data_dirs, f"{course_lib.TRAIN_SPLIT} or {DEV_SPLIT}"))
        explained.enter_context(label_checks.explain(infos, data_dirs, model))
        explained.enter_context(_explain_nan(model.path))
        _run(estimator, config, plan, train_input_fn, eval_input_fn, receiver_fn)


def _choose_ctc_kernel(model):
    config = model.config.train
    if model.config.model != "acoustic":
        return losses.CLASSIC
    has_gpu = config.num_cpu_replicas == 1 and bool(tf.config.list_physical_devices("GPU"))
    return ctc_check.choose_kernel(model.num_classes, has_gpu, strategies.session_config(config))


@contextlib.contextmanager
def _explain_nan(model_dir):
    try:
        yield
    except estimator_api.NanLossDuringTrainingError:
        raise errors.UserError(
            f"{model_dir}: loss is NaN, expected a number; continue from the last checkpoint with a lower "
            "--base_learning_rate, more --warmup_epochs or a lower --clip_norm"
        ) from None


def _first_step(model):
    checkpoint = tf.train.latest_checkpoint(model.path)
    if checkpoint is None:
        logging.info("%s: new model", model.path)
        return 0
    model_directory.check_checkpoint(checkpoint, model)
    step = _latest_step(model.path)
    logging.info("%s: continues from step %d", model.path, step)
    return step


def _latest_step(model_dir):
    """Steps of the newest checkpoint; 0 if there is none."""
    checkpoint = tf.train.latest_checkpoint(model_dir)
    return int(tf.train.load_variable(checkpoint, "global_step")) if checkpoint else 0


def _is_exported(model_dir, step):
    """Whether an earlier run came to its very end, and did not stop between the last checkpoint and that."""
    final = exporters.export_path(model_dir, exporters.FinalExporter.name)
    return exporters.read_evaluation(final).get("global_step") == step


def _build_estimator(model, plan, strategy):
    config = model.config.train
    run_config = estimator_api.RunConfig(
        model_dir=model.path,
        tf_random_seed=config.seed,
        save_summary_steps=config.save_summary_steps,
        save_checkpoints_steps=config.save_checkpoints_steps,
        keep_checkpoint_max=config.keep_checkpoint_max,
        session_config=strategies.session_config(config),
        # Evaluation stays on one device: replicas would drop a last batch that not all of them get.
        train_distribute=strategy,
    )
    return estimator_api.Estimator(model_fn.build_model_fn(model, plan), config=run_config)


def _build_eval_input_fn(config, infos, data_dirs):
    if not any(DEV_SPLIT in info.splits for info in infos):
        logging.warning("%s: there is no %s split, so nothing is evaluated", ",".join(data_dirs), DEV_SPLIT)
        return None
    return input_fn.build_input_fn(
        infos,
        data_dirs,
        DEV_SPLIT,
        config.input,
        model=config.model,
        training=False,
        fixed_shapes=config.train.xla,
    )


def _run(estimator, config, plan, train_input_fn, eval_input_fn, receiver_fn):
    """Trains; the last checkpoint is evaluated and exported even if an earlier run ended before it could."""
    with hooks.Termination() as termination:
        stop = [hooks.StopTrainingHook(termination)]
        listeners = [hooks.CheckpointListener(termination, plan.clock)]
        stop_evaluation = [hooks.StopEvaluationHook(termination)]
        chosen = exporters.build_exporters(config.model, receiver_fn)
        if eval_input_fn is None:
            estimator.train(
                train_input_fn, hooks=stop, max_steps=plan.course.max_steps, saving_listeners=listeners
            )
            _export_last(estimator, chosen, {})
        elif _latest_step(estimator.model_dir) >= plan.course.max_steps:
            _export_last(estimator, chosen, estimator.evaluate(eval_input_fn, hooks=stop_evaluation))
        else:
            train_spec = estimator_api.TrainSpec(train_input_fn, plan.course.max_steps, stop, listeners)
            eval_spec = estimator_api.EvalSpec(
                eval_input_fn,
                steps=None,
                hooks=stop_evaluation,
                exporters=chosen,
                start_delay_secs=0,
                throttle_secs=config.train.eval_throttle_seconds,
            )
            estimator_api.train_and_evaluate(estimator, train_spec, eval_spec)


def _export_last(estimator, chosen, figures):
    figures = {"global_step": _latest_step(estimator.model_dir), **figures}
    for exporter in chosen:
        path = exporters.export_path(estimator.model_dir, exporter.name)
        exporter.export(estimator, path, estimator.latest_checkpoint(), figures, is_the_final_export=True)
