"""The Estimator loop: everything between a model directory and its checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence

from absl import logging

from estimator_asr import estimator_api, experiment, model_directory
from estimator_asr.checkpointing.pretrained import warm_start
from estimator_asr.diagnostics import label_checks
from estimator_asr.inputs import damage, input_fn, input_progress
from estimator_asr.monitoring import bars, hparams
from estimator_asr.training import context, dev_evaluation, model_fn, resume, train_and_evaluate
from estimator_asr.training import plan as course_lib
from estimator_asr.training import termination as hooks
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import devices, strategies
from tfrecord_builder import dataset_info


def train(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    command: str = "python -m estimator_asr.train",
) -> None:
    """Trains until the config's number of steps or epochs, evaluating each checkpoint on the dev split.

    Args:
        model: of model_directory.check; its config.json is written when nothing can refuse the run any more.
        infos, data_dirs: the data; checked against the model by model_directory.check_data.
        command: as it was given, for what alarms say to run next.

    Raises:
        errors.UserError: a split or shard is not there, labels have the wrong form, the checkpoint does not
            fit, or the loss is no number.
        hooks.Terminated: SIGTERM came; a checkpoint is saved.
    """
    cluster = cluster_lib.read()
    is_writer = cluster is None or cluster.is_chief
    warm_start.check_settings(model)
    cluster_lib.write(cluster)
    strategy = strategies.build_strategy(model.config.train, cluster)
    num_replicas = strategy.num_replicas_in_sync if strategy else 1
    course = course_lib.make(model, infos, data_dirs, resume.find_step(model, is_writer))
    course_lib.log(course, model.config.optimizer, num_replicas)
    reason = resume.find_end(model, course, course.first_step)
    if reason and resume.is_exported(model.path, course.first_step):
        logging.info("%s: %s, nothing to do", model.path, reason)
        return
    devices.log_devices(model.config.train.num_cpu_replicas, cluster)
    with _explained(model, infos, data_dirs), hooks.Termination() as termination:
        label_checks.check(infos, data_dirs, model)
        plan = context.plan(model, course, infos, data_dirs, command, cluster)
        train_input_fn = _build_train_input_fn(model, infos, data_dirs, course, num_replicas)
        if cluster is None or not cluster.is_evaluator:
            describe = functools.partial(model_directory.write, model, data_dirs[0])
            warm_start.prepare(model, plan, train_input_fn, is_writer, describe)
        if is_writer:  # nothing refuses the run from here on
            model_directory.write(model, data_dirs[0])
            logging.info("settings: %s", os.path.join(model.path, experiment.CONFIG_FILE))
            input_progress.save(model.path, course.progress)
        run = train_and_evaluate.Run(
            model,
            plan,
            functools.partial(_build_estimator, model, plan, strategy, cluster),
            train_input_fn,
            dev_evaluation.build(model, infos, data_dirs, plan.watchdog, termination, cluster),
            termination,
        )
        _go(run, cluster)


def _go(run, cluster):
    if cluster is None:
        with hparams.session(run.model.path, run.model.config):
            train_and_evaluate.alone(run)
    elif cluster.is_evaluator:
        train_and_evaluate.evaluate(run)
    else:
        about = hparams.session(run.model.path, run.model.config)
        with about if cluster.is_chief else contextlib.nullcontext():
            train_and_evaluate.together(run, cluster)


@contextlib.contextmanager
def _explained(model, infos, data_dirs) -> Iterator[None]:
    """Says in a sentence what is wrong with the data when reading it fails; log lines go above the bars."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            damage.explain(data_dirs, f"{course_lib.TRAIN_SPLIT} or {dev_evaluation.DEV_SPLIT}")
        )
        stack.enter_context(label_checks.explain(infos, data_dirs, model))
        stack.enter_context(bars.beside_log_lines())
        yield


def _build_train_input_fn(model, infos, data_dirs, course, num_replicas):
    return input_fn.build_input_fn(
        infos,
        data_dirs,
        course_lib.TRAIN_SPLIT,
        model.config.input,
        spec=model.config.spec,
        training=True,
        seed=model.config.train.seed,
        start=course.start,
        num_replicas=num_replicas,
        fixed_shapes=model.config.train.xla,
    )


def _build_estimator(model, plan, strategy, cluster, is_worker):
    """The Estimator; of one of several workers with the strategy, else for what a process does alone."""
    config = model.config.train
    run_config = estimator_api.RunConfig(
        model_dir=model.path,
        tf_random_seed=config.seed,
        save_summary_steps=config.save_summary_steps,
        save_checkpoints_steps=config.save_checkpoints_steps,
        keep_checkpoint_max=config.keep_checkpoint_max,
        checkpoint_save_graph_def=False,  # TensorBoard's is in the event file; nothing reads another
        session_config=strategies.session_config(config),
        # Evaluation stays on one device: replicas would drop a last batch that not all of them get.
        train_distribute=strategy if is_worker or cluster is None else None,
    )
    # All workers run the hooks of a step; what those write is the chief's alone in the model directory.
    is_writer = cluster is None or cluster.is_chief
    path = model.path if is_writer else os.path.join(model.path, f"tmp_{cluster.name}")
    own = dataclasses.replace(model, path=path)
    return estimator_api.Estimator(model_fn.build_model_fn(own, plan), config=run_config)
