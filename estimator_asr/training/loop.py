"""The training loop with Estimator, in a single process or as one process of a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import checkpoints, estimator_api, experiment, model_directory
from estimator_asr.inputs import input_fn, input_progress, splits
from estimator_asr.training import evaluation, model_fn, step_time, stopping
from estimator_asr.training import plan as plan_lib
from estimator_asr.training.checkpointing import evaluation_log, recovery
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import strategies
from tfrecord_builder.data import dataset_info


class Observers(NamedTuple):
    """Hooks and functions that observe and explain training without changing it."""

    build_hooks: Sequence[model_fn.BuildHook] = ()  # functions that return a hook for a step's tensors
    evaluation_hooks: Sequence[estimator_api.SessionRunHook] = ()  # run during each evaluation
    after_evaluation: Sequence[evaluation.AfterEvaluation] = ()
    running: contextlib.AbstractContextManager = contextlib.nullcontext()  # active while training runs


def train(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    cluster: Optional[cluster_lib.Cluster] = None,
    observe: Callable[[plan_lib.TrainingPlan, step_time.Clock], Observers] = lambda plan, clock: Observers(),
) -> None:
    """Trains for the number of steps or epochs in the config, and evaluates checkpoints on the dev split.

    The model must come from model_directory.check, and the data must have passed model_directory.check_data.
    If the cluster is None, this process trains alone. `observe` is called shortly before training starts, and
    returns the observers of this training run.

    Raises:
        errors.UserError: a split is missing, the checkpoint does not fit, or an observer found a problem.
        stopping.Terminated: SIGTERM was received; a checkpoint has been saved.
    """
    loop = Loop(model, infos, data_dirs, cluster)
    if loop.is_finished():
        return
    strategies.log_devices(model.config.train.num_cpu_replicas, cluster)
    with splits.explain_damage(data_dirs, "train or dev"), stopping.Termination() as termination:
        loop.prepare(observe(loop.plan, loop.clock), termination)
        with loop.observers.running, loop.watch:
            loop.run()


class Loop:
    """Training in three stages: plan, prepare, run."""

    def __init__(self, model, infos, data_dirs, cluster):
        cluster_lib.write_tf_config(cluster)
        self.model, self.infos, self.data_dirs, self.cluster = model, infos, data_dirs, cluster
        self.is_writer = cluster is None or cluster.is_chief
        self.strategy = strategies.build_strategy(model.config.train, cluster)  # None for a single device
        self.num_replicas = self.strategy.num_replicas_in_sync if self.strategy else 1
        first_step = plan_lib.find_first_step(model, self.is_writer)
        self.plan = plan_lib.build_plan(model, infos, data_dirs, first_step, self.num_replicas)
        plan_lib.log_plan(self.plan, model.config.optimizer, self.num_replicas)
        history = evaluation_log.History(model.path, model.config.spec.error_rate)
        patience = model.config.stopping.early_stopping_evaluations
        self.rule = stopping.StopRule(history, patience, self.plan.max_steps)
        self.has_dev = any(evaluation.DEV_SPLIT in info.splits for info in infos)
        self.clock = step_time.Clock()

    def is_finished(self) -> bool:
        """Returns True, and logs why training ended, if an earlier run completed training and evaluation."""
        path, first_step = self.model.path, self.plan.first_step
        reason = self._find_reason(first_step)
        if reason is None or (self.has_dev and not evaluation.is_evaluated(path, first_step)):
            return False
        logging.info("%s: training %s; nothing to do", path, reason)
        return True

    def prepare(self, observers: Observers, termination: stopping.Termination) -> None:
        """Builds the inputs and the evaluator, then writes the settings, once all checks have passed."""
        self.observers, self.termination = observers, termination
        self.watch = step_time.StepWatch(self.model.config.train, termination, self.cluster)
        options = {"start": self.plan.start, "num_replicas": self.num_replicas}
        self.train_input_fn = self._build_input_fn(self.plan.source, training=True, **options)
        if self.model.config.train.warm_start_from and not (self.cluster and self.cluster.is_evaluator):
            self._warm_start()
        self.dev = None
        if self.has_dev:
            hooks = [stopping.StopEvaluationHook(termination), *observers.evaluation_hooks]
            dev = splits.read_split(self.infos, self.data_dirs, evaluation.DEV_SPLIT, self.model.config.spec)
            dev = dataclasses.replace(dev, index_dir=self.plan.source.index_dir)
            dev_input_fn = self._build_input_fn(dev, training=False)
            self.dev = evaluation.DevEvaluator(self.model, dev_input_fn, hooks, observers.after_evaluation)
        else:
            message = "%s: there is no dev split, so the model will not be evaluated during training"
            logging.warning(message, ",".join(self.data_dirs))
        if self.is_writer:
            model_directory.write(self.model, self.data_dirs[0])
            logging.info("the settings are in %s", os.path.join(self.model.path, experiment.CONFIG_FILE))
            input_progress.save(self.model.path, self.plan.progress)

    def run(self) -> None:
        """Trains, or evaluates checkpoints if this process is the evaluator, until training ends."""
        if self.cluster is None:
            self._train_locally()
        elif not self.cluster.is_evaluator:
            self._train_as_worker()
        elif self.dev:
            self.dev.follow(self._build_estimator(None), self._is_last, self.termination)

    def _train_locally(self):
        estimator = self._build_estimator(self.strategy)
        # The saver is last: its listener raises Terminated after SIGTERM, which skips later hooks' end().
        hooks = [recovery.RegularSaver(self.model.path, self.model.config.train.save_checkpoints_steps)]
        listeners = [stopping.CheckpointListener(self.termination, self.clock.pause)]
        max_steps = self.plan.max_steps
        if self.dev is None:
            estimator.train(self.train_input_fn, hooks, max_steps=max_steps, saving_listeners=listeners)
            return
        self.dev.catch_up(estimator, self._is_last)
        if not self._is_last(checkpoints.latest_step(self.model.path)):
            train_spec = estimator_api.TrainSpec(self.train_input_fn, max_steps, hooks, listeners)
            estimator_api.train_and_evaluate(estimator, train_spec, self.dev.spec())

    def _train_as_worker(self):
        """Trains as a worker in a cluster, where train_and_evaluate neither evaluates nor calls listeners."""
        if self.cluster.is_chief and self.cluster.evaluator is None:
            logging.warning(
                "TF_CONFIG lists no evaluator, so the model will be evaluated only once, after training"
            )
        # _is_last cannot be used here: workers would disagree if only some had seen the latest evaluation.
        if checkpoints.latest_step(self.model.path) < self.plan.max_steps:
            num_workers = len(self.cluster.workers)
            stop = stopping.CoordinatedStopHook(self.termination, num_workers, self.rule.find_early_stop)
            train_spec = estimator_api.TrainSpec(self.train_input_fn, self.plan.max_steps, [stop])
            unused = estimator_api.EvalSpec(self.train_input_fn)
            estimator_api.train_and_evaluate(self._build_estimator(self.strategy), train_spec, unused)
        self.termination.raise_if_requested()
        if self.cluster.is_chief and self.dev and self.cluster.evaluator is None:
            cluster_lib.write_tf_config(None)
            estimator = self._build_estimator(None)
            self.dev.run(estimator, estimator.latest_checkpoint())

    def _build_input_fn(self, source, **options):
        config = self.model.config
        options.update(seed=config.train.seed, fixed_shapes=config.train.xla)
        return input_fn.build_input_fn(source, config.input, **options)

    def _warm_start(self):
        from estimator_asr.pretrained import warm_start  # needed only with --warm_start_from

        def build_graph():
            batch = tf.compat.v1.data.make_initializable_iterator(self.train_input_fn()).get_next()
            model_fn.build_model_fn(self.model, self.plan)(*batch, estimator_api.ModeKeys.TRAIN)

        describe = functools.partial(model_directory.write, self.model, self.data_dirs[0])
        warm_start.prepare(self.model, build_graph, self.is_writer, describe)

    def _is_last(self, step):
        return self._find_reason(step) is not None

    def _find_reason(self, step):
        """Returns the reason why training ends at a step, or None if training continues.

        The last step depends on the number of replicas, so the evaluator of a cluster computes it from the
        progress that the chief has saved.
        """
        if self.cluster and self.cluster.is_evaluator and (progress := input_progress.load(self.model.path)):
            max_steps = plan_lib.max_steps(self.model.config.train, progress)
            self.rule = dataclasses.replace(self.rule, max_steps=max_steps)
        return self.rule.find_reason(step)

    def _build_estimator(self, strategy):
        config = self.model.config.train
        run_config = estimator_api.RunConfig(
            model_dir=self.model.path,
            tf_random_seed=config.seed,
            save_summary_steps=config.save_summary_steps,
            save_checkpoints_steps=config.save_checkpoints_steps,
            keep_checkpoint_max=config.keep_checkpoint_max,
            checkpoint_save_graph_def=False,  # TensorBoard reads the graph from the event file
            session_config=strategies.session_config(config),
            # No strategy for evaluation: it would drop a last batch that has fewer rows than replicas.
            train_distribute=strategy,
        )
        build_hooks = [functools.partial(step_time.StepWatchHook, self.watch), *self.observers.build_hooks]
        if self.cluster is None:  # clusters use CoordinatedStopHook instead
            build_hooks.append(
                lambda step: stopping.StopHook(step.update.number, self.rule, self.termination)
            )
        inner = model_fn.build_model_fn(self.model, self.plan, build_hooks)
        return estimator_api.Estimator(inner, config=run_config)
