from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.training import termination
from estimator_asr.training.distributed import coordinated_stop
from tfrecord_builder import errors


class Run:
    """One step of a worker whose peers wish what is given."""

    def __init__(self, is_content=lambda step: False, num_workers=2, first_step=100):
        self.termination = termination.Termination()
        self.hook = coordinated_stop.AgreementHook(self.termination, num_workers, is_content)
        self.hook._mine, self.hook._sums = "mine", "sums"
        self.hook._global_step = "step"
        self.first_step = first_step
        self.hook.after_create_session(self, None)
        self.is_stopped = False

    def run(self, fetch):
        return self.first_step

    def request_stop(self):
        self.is_stopped = True

    def step(self, *peers):
        (mine,) = self.hook.before_run(None).feed_dict.values()
        sums = [sum(column) for column in zip(mine, *peers)]
        self.hook.after_run(self, tf.compat.v1.train.SessionRunValues([sums, self.first_step], None, None))
        return mine


def test_training_goes_on_while_nobody_wishes_to_stop():
    run = Run()
    assert run.step([0, 0, 100]) == [0, 0, 100]
    assert not run.is_stopped and not run.termination.is_requested


def test_sigterm_of_a_peer_is_everybodys():
    run = Run()
    run.step([0, 0, 100])
    run.step([1, 0, 100])
    assert run.is_stopped and run.termination.is_requested


def test_ones_own_wish_waits_for_the_step_in_which_all_hear_it():
    run = Run()
    run.step([0, 0, 100])
    run.termination.is_requested = True
    assert not run.is_stopped
    assert run.step([0, 0, 100])[0] == 1
    assert run.is_stopped


def test_one_that_is_content_ends_training_without_sigterm():
    run = Run(is_content=lambda step: True)
    assert run.step([0, 0, 100]) == [0, 1, 100]
    assert run.is_stopped and not run.termination.is_requested


def test_workers_that_begin_at_different_steps_are_refused():
    with pytest.raises(errors.UserError, match="begins at step 100 and others at another, expected the same"):
        Run().step([0, 0, 50])


def test_later_steps_are_not_compared_with_the_first():
    run = Run()
    run.step([0, 0, 100])
    run.step([0, 0, 7])  # cannot be, but says that it was looked at once
