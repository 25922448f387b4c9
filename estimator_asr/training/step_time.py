"""Times training steps, counts the seconds that they wait for input, and enforces a time limit per step."""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import sys
import threading
import time
from typing import Any, Optional

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.models import replicas
from estimator_asr.training import stopping
from estimator_asr.training.distributed import cluster as cluster_lib

EXIT_STALLED = os.EX_TEMPFAIL  # 75
EXIT_WORKER_DIED = os.EX_SOFTWARE  # 70
_POLL_SECONDS = 5.0
_SIGNAL_SECONDS = 40.0  # time for a step to end after SIGTERM or Ctrl-C
_WORKER_SECONDS = 20.0  # a worker silent for this long is dead, unless a step ends meanwhile
# Stages that a replica goes through in a step, worded for use in a message.
_NOT_BEGUN = "has not begun the step"
_BEGUN = "waits for its input"
_INPUT = "has its input and waits for its loss (batch norm sums over all replicas)"
_LOSS = "has its loss and waits for its gradients or the sums over all replicas"
_SUMS = "has the sums over all replicas"
_CONTINUES = "the same command continues from the last checkpoint"


class Clock:
    """Counts the seconds spent in training steps; pauses while a checkpoint is saved and evaluated."""

    def __init__(self, now=time.monotonic):
        self._now = now
        self._seconds = 0.0
        self._running_since = None

    @property
    def seconds(self) -> float:
        running = 0.0 if self._running_since is None else self._now() - self._running_since
        return self._seconds + running

    def pause(self) -> None:
        self._seconds, self._running_since = self.seconds, None

    def resume(self) -> None:
        if self._running_since is None:
            self._running_since = self._now()


def time_input(features: dict, labels: dict) -> tuple[dict, dict, tf.Tensor]:
    """Returns the features, the labels, and the seconds that the step waited for them, float64 [].

    The control dependencies ensure that the clock is read before the model runs, even on a single thread.
    """
    started = tf.timestamp()
    with tf.control_dependencies([*features.values(), *labels.values()]):
        arrived = tf.timestamp()
    with tf.control_dependencies([arrived]):
        features = {name: tf.identity(value) for name, value in features.items()}
        labels = {name: tf.identity(value) for name, value in labels.items()}
        return features, labels, arrived - started


class StepWatch:
    """Ends the process if a step takes too long; a context manager that runs a watching thread.

    A collective waits forever for a replica or worker that does not join it. The call into TensorFlow then
    never returns, so the main thread can neither run a signal handler nor raise an exception. The thread also
    ends the process if a step does not end after SIGTERM or Ctrl-C, or if another worker stops answering.
    """

    def __init__(
        self,
        config: training_config.TrainConfig,
        termination: stopping.Termination,
        cluster: Optional[cluster_lib.Cluster],
    ):
        self._config, self._termination, self._peers = config, termination, cluster_lib.Peers(cluster)
        self._since = None  # time.monotonic() at the start of the step; None if no step is running
        self._paused_after = 0.0  # seconds that the step had been running when it was paused
        self._is_first = True
        self._ended = threading.Event()
        self.stages: dict[int, str] = {}  # stage of each replica of this process, keyed by replica number

    def __enter__(self):
        threading.Thread(target=self._watch, name="step-watch", daemon=True).start()
        return self

    def __exit__(self, *_):
        self._ended.set()

    def begin_step(self, is_first: bool = False) -> None:
        """Starts timing a step; is_first is True if it is a session's first step, which also compiles."""
        self._is_first = is_first
        self._since = time.monotonic()

    def end_step(self) -> None:
        """Starts timing the next step, and records that all workers took part in this one."""
        self._peers.confirm()
        self.begin_step()

    def resume(self) -> None:
        """Continues timing a step that was paused."""
        if self._since is None:
            self._since = time.monotonic() - self._paused_after

    def pause(self) -> None:
        """Stops timing the step while a checkpoint is saved and evaluated, or because training ends."""
        if self._since is not None:
            self._paused_after = time.monotonic() - self._since
            self._since = None

    def _watch(self):
        while not self._ended.wait(_POLL_SECONDS):
            self._peers.ask()
            since = self._since
            if since is not None and not self._ended.is_set():
                self._judge(time.monotonic() - since)

    def _judge(self, seconds):
        name = "max_first_step_minutes" if self._is_first else "max_step_minutes"
        limit, dead = getattr(self._config, name), self._peers.find_dead(_WORKER_SECONDS)
        signal_number = self._termination.received_before(_SIGNAL_SECONDS)
        if dead:
            reason = f"{' and '.join(dead)} died, so this worker ends too"
            _end(EXIT_WORKER_DIED, f"{reason}; start all workers again; {_CONTINUES}")
        elif signal_number and seconds >= _SIGNAL_SECONDS:
            reason = f"train: the step has not ended {_SIGNAL_SECONDS:.0f} s after signal {signal_number}"
            reason += ", so no checkpoint was saved"
            _end(128 + signal_number, f"{reason}; {self._describe()}; {_CONTINUES}")
        elif seconds >= 60 * limit:
            reason = f"train: the step has not ended in {seconds / 60:.1f} minutes"
            reason += f" (limit: --{name}={limit:g})"
            _end(EXIT_STALLED, f"{reason}; {self._describe()}; {_CONTINUES}", with_stacks=True)

    def _describe(self):
        stages = (f"replica {number} {stage}" for number, stage in sorted(self.stages.items()))
        return ", ".join([*stages, *self._peers.describe_missing()])


def _end(code, sentence, with_stacks=False):
    """Ends the process from this thread, because the main thread is blocked in TensorFlow."""
    if with_stacks:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
    logging.error("%s", sentence)
    logging.flush()
    os._exit(code)


@dataclasses.dataclass(eq=False)
class StepWatchHook(estimator_api.SessionRunHook):
    """Reports steps and the stage of each replica to a StepWatch; must be the first hook of a step.

    After a worker has died, TensorFlow recreates the session over and over, and saves a checkpoint each time;
    this does not count as the start of a step.
    """

    watch: StepWatch
    step: Any  # model_fn.StepTensors of this replica

    def __post_init__(self):
        replica = int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
        sums = [self.step.update.loss, self.step.update.gradient_norm]
        has = {_INPUT: [self.step.wait], _LOSS: [self.step.scalars["total-loss"]], _SUMS: sums}
        marks = [self._mark(replica, stage, tensors) for stage, tensors in has.items()]
        self._marks = replicas.group_over_replicas(tf.group(*marks))
        self.watch.stages[replica] = _NOT_BEGUN

    def _mark(self, replica, stage, tensors):
        with tf.control_dependencies(tensors), tf.device("/device:CPU:0"):
            return tf.compat.v1.py_func(lambda: self.watch.stages.update({replica: stage}), [], [])

    def begin(self):
        self.watch.begin_step(is_first=True)
        for saver in tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVERS):
            saver.save = self._pause_before(saver.save)

    def _pause_before(self, save):
        """Returns `save` with a pause first: saver hooks run before this hook; workers have no listeners."""

        def pause_and_save(*arguments, **options):
            self.watch.pause()
            try:
                return save(*arguments, **options)
            except Exception:  # a worker may have died, and TensorFlow retries forever
                self.watch.resume()
                raise

        return pause_and_save

    def before_run(self, run_context):
        self.watch.resume()
        self.watch.stages.update(dict.fromkeys(self.watch.stages, _BEGUN))
        return estimator_api.SessionRunArgs(self._marks)

    def after_run(self, run_context, run_values):
        self.watch.end_step()

    def end(self, session):
        self.watch.pause()
