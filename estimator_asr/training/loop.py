"""The Estimator loop: trains a model directory in one process, or as one of the processes of a cluster."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api, experiment, model_directory
from estimator_asr.checkpointing import checkpoints, evaluation_log, saver
from estimator_asr.inputs import input_fn, input_progress, splits
from estimator_asr.models import losses
from estimator_asr.training import evaluation, model_fn, step_time, stopping
from estimator_asr.training import plan as plan_lib
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import devices, strategies
from tfrecord_builder import dataset_info


class Observers(NamedTuple):
    """What observes and explains a training; it trains the same without.

    Attributes:
        build_hooks: each returns a session hook for the tensors of a training step.
        evaluation_hooks: session hooks of each evaluation on dev.
        exporters: run after each evaluation on dev.
        running: entered while training runs.
        ctc_kernel: one of losses.KERNELS that computes the loss correctly on this machine.
    """

    build_hooks: Sequence[model_fn.BuildHook] = ()
    evaluation_hooks: Sequence[estimator_api.SessionRunHook] = ()
    exporters: Sequence[estimator_api.Exporter] = ()
    running: contextlib.AbstractContextManager = contextlib.nullcontext()
    ctc_kernel: str = losses.CLASSIC


def train(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    cluster: Optional[cluster_lib.Cluster] = None,
    observe: Callable[[plan_lib.TrainingPlan, step_time.Clock], Observers] = lambda plan, clock: Observers(),
) -> None:
    """Trains until the config's number of steps or epochs, evaluating each checkpoint on the dev split.

    Args:
        model: of model_directory.check; its config.json is written when nothing can refuse the run any more.
        infos, data_dirs: the data; checked against the model by model_directory.check_data.
        cluster: that this process belongs to; None: it trains alone.
        observe: returns the observers of a training that is about to start.

    Raises:
        errors.UserError: a split or shard is missing, the checkpoint does not fit, or an observer refuses the
            data or a step.
        stopping.Terminated: SIGTERM came; a checkpoint is saved.
    """
    is_writer = cluster is None or cluster.is_chief
    cluster_lib.write(cluster)
    strategy = strategies.build_strategy(model.config.train, cluster)
    num_replicas = strategy.num_replicas_in_sync if strategy else 1
    plan = plan_lib.make(model, infos, data_dirs, plan_lib.find_first_step(model, is_writer))
    plan_lib.log(plan, model.config.optimizer, num_replicas)
    has_dev = any(evaluation.DEV_SPLIT in info.splits for info in infos)
    history = evaluation_log.History(model.path, model.config.spec.error_rate)
    rule = stopping.StopRule(history, model.config.stopping.early_stopping_evaluations, plan.max_steps)
    reason = rule.find_reason(plan.first_step)
    if reason and (not has_dev or evaluation.is_evaluated(model.path, plan.first_step)):
        logging.info("%s: %s, nothing to do", model.path, reason)
        return
    devices.log_devices(model.config.train.num_cpu_replicas, cluster)
    clock = step_time.Clock()
    with splits.explain_damage(data_dirs, "train or dev"), stopping.Termination() as termination:
        observers = observe(plan, clock)
        train_input_fn = _build_input_fn(
            model, infos, data_dirs, training=True, start=plan.start, num_replicas=num_replicas
        )
        if not (cluster and cluster.is_evaluator):
            _warm_start(model, plan, train_input_fn, is_writer, data_dirs[0])
        if is_writer:  # nothing refuses the run from here on
            model_directory.write(model, data_dirs[0])
            logging.info("settings: %s", os.path.join(model.path, experiment.CONFIG_FILE))
            input_progress.save(model.path, plan.progress)
        dev = _build_evaluation(model, infos, data_dirs, observers, termination) if has_dev else None
        if not has_dev:
            logging.warning("%s: has no dev split, so nothing is evaluated", ",".join(data_dirs))
        running = Loop(
            model, plan, rule, train_input_fn, dev, observers, strategy, cluster, termination, clock
        )
        with observers.running:
            running.run()


def _build_input_fn(model, infos, data_dirs, *, training, **options):
    return input_fn.build_input_fn(
        infos,
        data_dirs,
        plan_lib.TRAIN_SPLIT if training else evaluation.DEV_SPLIT,
        model.config.input,
        spec=model.config.spec,
        training=training,
        seed=model.config.train.seed,
        fixed_shapes=model.config.train.xla,
        **options,
    )


def _build_evaluation(model, infos, data_dirs, observers, termination):
    read = _build_input_fn(model, infos, data_dirs, training=False)
    hooks = [stopping.StopEvaluationHook(termination), *observers.evaluation_hooks]
    return evaluation.Evaluation(model, read, hooks, observers.exporters)


def _warm_start(model, plan, train_input_fn, is_writer, data_dir):
    if not model.config.train.warm_start_from and not model.config.train.warm_start_tokens:
        return
    from estimator_asr.checkpointing.pretrained import warm_start

    def build_graph():
        features, labels = tf.compat.v1.data.make_initializable_iterator(train_input_fn()).get_next()
        model_fn.build_model_fn(model, plan)(features, labels, estimator_api.ModeKeys.TRAIN)

    describe = functools.partial(model_directory.write, model, data_dir)
    warm_start.prepare(model, build_graph, is_writer, describe)


class Loop(NamedTuple):
    """A training that is ready to run.

    Attributes:
        model: the model to train.
        plan: of the training.
        rule: when the training ends.
        train_input_fn: of the train split.
        dev: evaluation on dev; None: the data has no dev split.
        observers: of the training.
        strategy: None: one device, or an evaluator.
        cluster: that this process belongs to; None: it trains alone.
        termination: whether SIGTERM came.
        clock: runs during training steps.
    """

    model: model_directory.ModelDirectory
    plan: plan_lib.TrainingPlan
    rule: stopping.StopRule
    train_input_fn: Callable
    dev: Optional[evaluation.Evaluation]
    observers: Observers
    strategy: Optional[object]
    cluster: Optional[cluster_lib.Cluster]
    termination: stopping.Termination
    clock: step_time.Clock

    def run(self) -> None:
        """Trains, or evaluates, until the end."""
        if self.cluster is None:
            self._train_locally()
        elif self.cluster.is_evaluator:
            self._evaluate_checkpoints()
        else:
            self._train_as_worker()

    def _train_locally(self):
        estimator = self._build_estimator(self.strategy)
        regular = saver.RegularSaver(self.model.path, self.model.config.train.save_checkpoints_steps)
        # The saver comes last: after SIGTERM its listener raises, and hooks after it would never end.
        hooks = [stopping.StopTrainingHook(self.termination), regular]
        listeners = [stopping.CheckpointListener(self.termination, self.clock)]
        max_steps = self.plan.max_steps
        if self.dev is None:
            estimator.train(self.train_input_fn, hooks, max_steps=max_steps, saving_listeners=listeners)
            return
        self.dev.catch_up(estimator, self._is_last)
        if not self._is_last(checkpoints.latest_step(self.model.path)):
            train_spec = estimator_api.TrainSpec(self.train_input_fn, max_steps, hooks, listeners)
            estimator_api.train_and_evaluate(estimator, train_spec, self.dev.spec())

    def _train_as_worker(self):
        """In a cluster train_and_evaluate evaluates nothing and calls no listeners."""
        from estimator_asr.training.distributed import coordinated_stop

        if self.cluster.is_chief and self.cluster.evaluator is None:
            logging.warning("TF_CONFIG: lists no evaluator, so dev is evaluated once, after training")
        # Not _is_last: an evaluation that one worker sees and another does not yet would separate them.
        if checkpoints.latest_step(self.model.path) < self.plan.max_steps:
            num_workers = len(self.cluster.workers)
            stop = coordinated_stop.CoordinatedStopHook(self.termination, num_workers, self._stops_early)
            train_spec = estimator_api.TrainSpec(self.train_input_fn, self.plan.max_steps, [stop])
            unused = estimator_api.EvalSpec(self.train_input_fn)
            estimator_api.train_and_evaluate(self._build_estimator(self.strategy), train_spec, unused)
        self.termination.raise_if_requested()
        if self.cluster.is_chief and self.dev and self.cluster.evaluator is None:
            cluster_lib.write(None)
            estimator = self._build_estimator(None)
            self.dev.run(estimator, estimator.latest_checkpoint())

    def _evaluate_checkpoints(self):
        from estimator_asr.training.distributed import evaluator

        if self.dev:
            estimator = self._build_estimator(None)
            evaluator.evaluate_checkpoints(
                self.model.path,
                functools.partial(self.dev.run, estimator),
                is_last=self._is_last,
                throttle_seconds=self.dev.throttle_seconds,
                termination=self.termination,
            )

    def _is_last(self, step):
        return self.rule.find_reason(step) is not None

    def _stops_early(self, step):
        return self.rule.find_early_stop(step) is not None

    def _build_early_stop(self, step):
        return stopping.EarlyStoppingHook(step.number, self.rule)

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
            # Evaluation stays on one device: replicas would drop a last batch that not all of them get.
            train_distribute=strategy,
        )
        # The workers of a cluster stop together.
        stops_alone = self.rule.patience and self.cluster is None
        build_hooks = [*self.observers.build_hooks, *([self._build_early_stop] if stops_alone else [])]
        inner = model_fn.build_model_fn(self.model, self.plan, build_hooks, self.observers.ctc_kernel)
        return estimator_api.Estimator(inner, config=run_config)
