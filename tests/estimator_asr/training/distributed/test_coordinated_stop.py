from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.training import stopping
from estimator_asr.training.distributed import coordinated_stop
from tfrecord_builder import errors


class Run:
    """One step of a worker whose peers request what is given."""

    def __init__(self, should_stop=lambda step: False, num_workers=2, first_step=100):
        self.termination = stopping.Termination()
        self.hook = coordinated_stop.CoordinatedStopHook(self.termination, num_workers, should_stop)
        self.hook._own, self.hook._sums = "own", "sums"
        self.hook._global_step = "step"
        self.first_step = first_step
        self.hook.after_create_session(self, None)
        self.is_stopped = False

    def run(self, fetch):
        return self.first_step

    def request_stop(self):
        self.is_stopped = True

    def step(self, *peers):
        (own,) = self.hook.before_run(None).feed_dict.values()
        sums = [sum(column) for column in zip(own, *peers)]
        self.hook.after_run(self, tf.compat.v1.train.SessionRunValues([sums, self.first_step], None, None))
        return own


def test_training_continues_while_no_worker_requests_a_stop():
    run = Run()
    assert run.step([0, 0, 100]) == [0, 0, 100]
    assert not run.is_stopped and not run.termination.is_requested


def test_sigterm_of_one_worker_stops_all():
    run = Run()
    run.step([0, 0, 100])
    run.step([1, 0, 100])
    assert run.is_stopped and run.termination.is_requested


def test_a_request_takes_effect_in_the_step_that_all_workers_share():
    run = Run()
    run.step([0, 0, 100])
    run.termination.is_requested = True
    assert not run.is_stopped
    assert run.step([0, 0, 100])[0] == 1
    assert run.is_stopped


def test_the_stopping_criterion_of_one_worker_stops_all_without_sigterm():
    run = Run(should_stop=lambda step: True)
    assert run.step([0, 0, 100]) == [0, 1, 100]
    assert run.is_stopped and not run.termination.is_requested


def test_workers_that_start_at_different_steps_are_refused():
    with pytest.raises(errors.UserError, match="starts at step 100 and others at another, expected the same"):
        Run().step([0, 0, 50])


def test_only_the_first_step_is_compared():
    run = Run()
    run.step([0, 0, 100])
    run.step([0, 0, 7])  # impossible, but ignored
