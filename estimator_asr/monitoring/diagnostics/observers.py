"""Observers of a training run: the monitoring and diagnostics that its flags enable.

Only this module connects training/ to monitoring/ and diagnostics/. Modules that are needed only with a flag
are imported in the functions that use them.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from estimator_asr.experiment import model_directory
from estimator_asr.inputs import input_fn, splits
from estimator_asr.models import replicas
from estimator_asr.monitoring import advice, hparams, progress, tensorboard
from estimator_asr.monitoring.diagnostics import label_checks, nan_recorder
from estimator_asr.training import evaluation, loop, step_time
from estimator_asr.training import plan as plan_lib
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.optimizer import schedules
from tfrecord_builder.data import dataset_info


class Training(NamedTuple):
    """A training run to observe."""

    model: model_directory.ModelDirectory  # the settings, and the directory to which training writes
    infos: Sequence[dataset_info.DatasetInfo]
    data_dirs: Sequence[str]
    command: str  # the command line that started the training
    cluster: Optional[cluster_lib.Cluster]  # None if this process trains alone

    @property
    def is_writer(self) -> bool:
        """True if this process writes the model directory."""
        return self.cluster is None or self.cluster.is_chief

    @property
    def event_dir(self) -> str:
        """Directory for the hooks' event files: the model directory, or a worker's own subdirectory.

        TensorBoard stops reading an event file once it finds a second event file in the same directory.
        """
        return self.model.path if self.is_writer else os.path.join(self.model.path, self.cluster.name)

    def observe(self, plan: plan_lib.TrainingPlan, clock: step_time.Clock) -> loop.Observers:
        """Checks a sample of the labels and returns the observers for this process.

        `clock` counts the time spent in training steps, excluding evaluations. Raises errors.UserError if a
        label in the sample is wrong.
        """
        label_checks.check_sample(self.infos, self.data_dirs, self.model)
        watch, display = self.model.config.watch, self.model.config.display
        hooks = [
            functools.partial(self._show_progress, plan, clock),
            functools.partial(self._measure_data_wait, clock),
            functools.partial(self._record_nan, plan),
        ]
        after_evaluation, evaluation_hooks = [], []
        if watch.watchdog and (self.is_writer or self.cluster.is_evaluator):
            self._watch(plan, hooks, after_evaluation)
        if watch.try_worst_batch:
            hooks.append(functools.partial(self._try_worst_batch, plan))
        if display.histogram_steps:
            hooks.append(
                lambda step: tensorboard.histogram_hook(
                    step.update.gradients, display.histogram_steps, self.event_dir
                )
            )
        if display.profile_steps:
            hooks.append(lambda step: tensorboard.ProfileHook(*display.profile_steps, self.event_dir))
        if any(evaluation.DEV_SPLIT in info.splits for info in self.infos):
            data = (self.infos, self.data_dirs, evaluation.DEV_SPLIT)
            dev = splits.read_split(*data, self.model.config.spec).bucket(self.model.config.input)
            evaluation_hooks.append(progress.EvaluationHook(evaluation.DEV_SPLIT, dev.batches_per_epoch))
            if display.show_utterances and (self.cluster is None or self.cluster.is_evaluator):
                from estimator_asr.monitoring import prediction_samples

                after_evaluation.append(prediction_samples.PredictionSamples(self.model, *data).write)
        return loop.Observers(hooks, evaluation_hooks, after_evaluation, self._run())

    @contextlib.contextmanager
    def _run(self) -> Iterator[None]:
        """During training, explains wrong labels, keeps log lines above bars and fills the HPARAMS tab."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(label_checks.explain_wrong_labels(self.infos, self.data_dirs, self.model))
            stack.enter_context(progress.beside_log_lines())
            if self.is_writer:
                stack.enter_context(hparams.session(self.model.path, self.model.config))
            yield

    def _show_progress(self, plan, clock, step):
        config = self.model.config
        return progress.ProgressHook(
            {
                "number": step.update.number,
                "loss": step.scalars["avg-loss"],
                "error_rate": step.scalars[config.spec.error_rate],
                "inputs": step.num_inputs,
            },
            unit=config.spec.unit,
            max_steps=plan.max_steps,
            seconds=config.train.progress_seconds,
            num_replicas=replicas.num_replicas(),
            num_parameters=step.update.num_parameters,
            clock=clock,
        )

    def _measure_data_wait(self, clock, step):
        return progress.DataWaitHook(
            step.wait,
            step.update.number,
            every_steps=self.model.config.train.save_summary_steps,
            event_dir=self.event_dir,
            clock=clock,
            doctor_command=advice.command(
                "estimator_asr.doctor", data_dir=",".join(self.data_dirs), model_dir=self.model.path
            ),
        )

    def _record_nan(self, plan, step):
        config, bucketing = self.model.config, plan.progress.bucketing
        return nan_recorder.NanRecorderHook(
            {
                "is_finite": step.update.is_finite,
                "number": step.update.number,
                "position": step.features["seed"],
                "loss": step.update.loss,
                "gradient_norm": step.update.gradient_norm,
                "learning_rate": step.scalars["learning-rate"],
            },
            model_dir=self.model.path,
            config_json=config.to_json(indent=2),
            read_records=functools.partial(input_fn.read_batch, plan.source, bucketing, config.input),
            fbank_dtype=plan.source.fbank_dtype,
            max_skipped=config.watch.skip_bad_batches,
            is_writer=self.is_writer,
        )

    def _watch(self, plan, hooks, after_evaluation):
        """Adds the watchdog, which observes training steps and evaluations."""
        from estimator_asr.monitoring import observations, watchdog

        config = self.model.config
        training = observations.TrainingFacts(
            command=self.command,
            model_dir=self.model.path,
            data_dir=",".join(self.data_dirs),
            error_rate=config.spec.error_rate,
            warmup_steps=round(plan.steps_per_epoch * config.optimizer.warmup_epochs),
            max_steps=plan.max_steps,
            base_rate=config.optimizer.learning_rate,
            peak_rate=schedules.initial_rate(config.optimizer, plan.batch_size),
            constant_loss_steps=config.watch.constant_loss_steps,
            steps_per_epoch=plan.steps_per_epoch,
            num_utterances=plan.source.num_utterances,
            hours=plan.source.seconds / 3600,
        )
        dog = watchdog.Watchdog(training)
        hooks.append(lambda step: watchdog.WatchdogHook(dog, step.update.number, step.scalars))
        after_evaluation.append(dog.add_evaluation)

    def _try_worst_batch(self, plan, step):
        from estimator_asr.monitoring.diagnostics import memory_probe

        return memory_probe.MemoryProbeHook(
            step.features,
            step.labels,
            replicas.add_local(step.update.gradient_norm),
            model=self.model,
            source=plan.source,
            bucketing=plan.progress.bucketing,
            num_replicas=replicas.num_replicas(),
            first_step=plan.first_step,
        )
