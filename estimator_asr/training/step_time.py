"""Times training steps, counts the seconds that they wait for input, and enforces a time limit per step."""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.models import replicas
from estimator_asr.training import stopping
from estimator_asr.training.distributed import cluster as cluster_lib

FIRST_STEP_FACTOR = 3  # the first step may take this many times --max_step_minutes
EXIT_STALLED = os.EX_TEMPFAIL  # exit status 75
EXIT_WORKER_DIED = os.EX_SOFTWARE  # exit status 70
POLL_SECONDS = 5.0
SIGNAL_SECONDS = 40.0  # time limit for the running step after SIGTERM or Ctrl-C
_WORKER_SECONDS = 20.0  # a worker that is silent for longer counts as dead, unless a step ends
# Stages that a replica goes through in a step, worded for use in a message.
NOT_BEGUN = "has not begun the step"
BEGUN = "waits for its input"
HAS_INPUT = "has its input and waits for its loss (batch norm sums over all replicas)"
HAS_LOSS = "has its loss and waits for its gradients or the sums over all replicas"
HAS_SUMS = "has the sums over all replicas"
_CONTINUES = "the same command continues from the last checkpoint"


class Clock:
    """A clock that can be paused. One thread controls the clock, and other threads may read `seconds`."""

    def __init__(self, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._seconds = 0.0
        self._running_since = None

    @property
    def is_running(self) -> bool:
        return self._running_since is not None

    @property
    def seconds(self) -> float:
        # Reading in this order counts no time twice, even if another thread pauses the clock in between.
        seconds, since = self._seconds, self._running_since
        return seconds if since is None else seconds + self._now() - since

    def pause(self) -> None:
        self._running_since, self._seconds = None, self.seconds

    def resume(self) -> None:
        if not self.is_running:
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
    """A context manager whose thread ends the process if a step takes too long.

    A collective waits forever for a replica or worker that does not join it. The call into TensorFlow then
    never returns, so the main thread can neither run a signal handler nor raise an exception. The thread also
    ends the process if a step does not end after SIGTERM or Ctrl-C, or if another worker stops answering.
    """

    def __init__(
        self,
        config: training_config.TrainConfig,
        termination: stopping.Termination,
        cluster: Optional[cluster_lib.Cluster],
        now: Callable[[], float] = time.monotonic,
        end: Optional[Callable[[int, str], None]] = None,
    ):
        self._config, self._termination, self._peers = config, termination, cluster_lib.Peers(cluster, now)
        self._now, self._end = now, end or end_process
        self.clock, self._is_first = Clock(now), True  # times the running step; paused if no step is running
        self._ended = threading.Event()
        self.stages: dict[int, str] = {}  # stage of each replica of this process, keyed by replica number

    def __enter__(self):
        threading.Thread(target=self._watch, name="step-watch", daemon=True).start()
        return self

    def __exit__(self, *_):
        self._ended.set()

    def begin_step(self, is_first: bool = False) -> None:
        """Starts timing a step; is_first is True for a session's first step, which includes compilation."""
        self._is_first, self.clock = is_first, Clock(self._now)
        self.clock.resume()

    def end_step(self) -> None:
        """Records that all workers took part in the step that ended, and starts timing the next step."""
        self._peers.confirm()
        self.begin_step()

    def _watch(self):
        while not self._ended.wait(POLL_SECONDS):
            self.check()

    def check(self) -> None:
        """Ends the process if the running step takes too long, or if another worker has died."""
        self._peers.ask()
        if not self.clock.is_running or self._ended.is_set():
            return
        seconds = self.clock.seconds
        limit, factor = self._config.max_step_minutes, FIRST_STEP_FACTOR if self._is_first else 1
        dead = self._peers.find_dead(_WORKER_SECONDS)
        signal_number = self._termination.received_before(SIGNAL_SECONDS)
        if dead:
            reason = f"{' and '.join(dead)} died, so this worker ends too"
            self._end(EXIT_WORKER_DIED, f"{reason}; start all workers again; {_CONTINUES}")
        elif signal_number and seconds >= SIGNAL_SECONDS:
            reason = f"within {SIGNAL_SECONDS:.0f} s after signal {signal_number}, so no checkpoint was saved"
            self._end(128 + signal_number, self._describe(reason))
        elif seconds >= 60 * limit * factor:
            text = f"{factor} times --max_step_minutes" if factor > 1 else "--max_step_minutes"
            self._end(
                EXIT_STALLED, self._describe(f"within {seconds / 60:.1f} minutes (limit: {text}={limit:g})")
            )

    def _describe(self, reason):
        stages = (f"replica {number} {stage}" for number, stage in sorted(self.stages.items()))
        places = ", ".join([*stages, *self._peers.describe_missing()])
        return f"train: the step did not end {reason}; {places}; {_CONTINUES}"


def end_process(code: int, sentence: str) -> None:
    """Ends the process from this thread, because the main thread is blocked in TensorFlow."""
    if code == EXIT_STALLED:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
    logging.error("%s", sentence)
    logging.flush()
    os._exit(code)


@dataclasses.dataclass(eq=False)
class StepWatchHook(estimator_api.SessionRunHook):
    """A hook that reports steps and each replica's stage to a StepWatch; must be the first hook of a step.

    After a worker has died, TensorFlow recreates the session over and over, and saves a checkpoint each time;
    this does not count as the start of a step.
    """

    watch: StepWatch
    step: Any  # model_fn.StepTensors of this replica

    def __post_init__(self):
        replica = int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
        sums = [self.step.update.loss, self.step.update.gradient_norm]
        has = {HAS_INPUT: [self.step.wait], HAS_LOSS: [self.step.scalars["total-loss"]], HAS_SUMS: sums}
        marks = [self._mark(replica, stage, tensors) for stage, tensors in has.items()]
        self._marks = replicas.group_over_replicas(tf.group(*marks))
        self.watch.stages[replica] = NOT_BEGUN

    def _mark(self, replica, stage, tensors):
        with tf.control_dependencies(tensors), tf.device("/device:CPU:0"):
            return tf.compat.v1.py_func(lambda: self.watch.stages.update({replica: stage}), [], [])

    def begin(self):
        self.watch.begin_step(is_first=True)
        for saver in tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVERS):
            saver.save = self._pause_before(saver.save)

    def _pause_before(self, save):
        """Returns a function that pauses the clock and then calls `save`.

        Saver hooks save before this hook's after_run could pause the clock, and workers have no saver
        listeners. The clock stays paused during an evaluation, and when training ends.
        """

        def pause_and_save(*arguments, **options):
            self.watch.clock.pause()
            try:
                return save(*arguments, **options)
            except Exception:  # a worker may have died; if so, TensorFlow retries forever
                self.watch.clock.resume()
                raise

        return pause_and_save

    def before_run(self, run_context):
        self.watch.clock.resume()
        self.watch.stages.update(dict.fromkeys(self.watch.stages, BEGUN))
        return estimator_api.SessionRunArgs(self._marks)

    def after_run(self, run_context, run_values):
        self.watch.end_step()

    def end(self, session):
        self.watch.clock.pause()
