import dataclasses
import json
import math
import os
import signal

import numpy as np
import paths
import programs
import pytest
import replica_programs
import small_models
import tensorflow as tf

from estimator_asr.training import loop, stopping
from estimator_asr.training.checkpointing import evaluation_log
from tfrecord_builder import errors

NAN = math.nan


class Known:
    def __init__(self, *rates):
        self.rates = [(10 * (i + 1), rate) for i, rate in enumerate(rates)]

    def known_at(self, step):
        return [pair for pair in self.rates if pair[0] <= step]


@pytest.mark.parametrize(
    "rates, count",
    [
        ([], 0),
        ([0.5], 0),
        ([0.5, 0.5], 1),
        ([0.5, 0.6, 0.4], 0),
        ([0.4, 0.6, 0.4, 0.5], 3),
        ([NAN, NAN], 2),
        ([0.5, NAN], 1),
    ],
)
def test_evaluations_since_the_lowest_error_rate_are_counted(rates, count):
    assert stopping.count_since_lowest(rates) == count


def find(known, patience, step):
    return stopping.StopRule(known, patience, 1000).find_early_stop(step)


def test_patience_ends_training_and_names_the_lowest_rate():
    known = Known(0.5, 0.25, 0.3, NAN)
    reason = "no new lowest error rate on dev in 2 evaluations (the lowest was 0.2500 at step 20)"
    assert find(known, 2, 39) is None and find(known, 2, 40) == reason
    assert find(known, 3, 40) is None and find(known, 0, 40) is None
    assert find(Known(NAN), 1, 10).endswith("1 evaluations (all of them are NaN)")


def test_training_ends_at_the_last_step_or_early():
    rule = stopping.StopRule(Known(0.5, 0.5), 1, 30)
    assert rule.find_reason(10) is None and rule.find_reason(30) == "is already at step 30 of 30"
    assert rule.find_reason(20).startswith("stopped early at step 20, no new lowest error rate on dev in 1 ")


@pytest.mark.parametrize("patience, terminated_at, last", [(2, None, 30), (2, 20, 21), (0, 20, 21)])
def test_training_ends_with_the_step_that_was_evaluated_or_after_sigterm(patience, terminated_at, last):
    termination = stopping.Termination()
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        number = tf.identity(step)
        with tf.control_dependencies([number]):
            train = tf.compat.v1.assign_add(step, 1)
        rule = stopping.StopRule(Known(0.5, 0.5, 0.5), patience, 1000)
        hook = stopping.StopHook(number, rule, termination)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                found = session.run(train)
                termination.is_requested = found == terminated_at
    assert found == last


def test_sigterm_is_remembered_and_the_previous_handler_restored():
    before = signal.getsignal(signal.SIGTERM)
    with stopping.Termination() as termination:
        termination.raise_if_requested()
        os.kill(os.getpid(), signal.SIGTERM)
        assert termination.is_requested
        with pytest.raises(stopping.Terminated):
            termination.raise_if_requested()
    assert signal.getsignal(signal.SIGTERM) == before


def test_after_sigterm_evaluations_are_aborted_and_none_follows_a_checkpoint():
    termination, pauses = stopping.Termination(), []
    listener = stopping.CheckpointListener(termination, lambda: pauses.append("paused"))
    listener.before_save(None, 1)
    assert pauses == ["paused"]
    methods = (stopping.StopEvaluationHook(termination).after_run, listener.after_save, listener.end)
    for method in methods:
        method(None, 1)
    termination.is_requested = True
    for method in methods:
        with pytest.raises(stopping.Terminated):
            method(None, 1)


@pytest.mark.slow
def test_two_replicas_stop_and_lower_their_rate_like_a_single_replica(tmp_path):
    completed = programs.run(paths.script("replica_programs.py"), "stopping", tmp_path)
    assert completed.returncode == 0, completed.stderr[-3000:]
    result = json.loads(completed.stdout.splitlines()[-1])
    assert result["evaluated"] == [2, 4, 6]  # the lowest error rate, then two evaluations that are no better
    assert result["rates"] == {"1": 1, "2": 1, "3": 1, "4": 1, "5": 0.5, "6": 0.5}


@pytest.mark.slow
def test_training_that_learns_nothing_stops_early_even_if_an_evaluation_was_killed(tmp_path, log):
    model, infos, dirs = replica_programs.make_plateau_model(tmp_path, train_steps=4)
    loop.train(model, infos, dirs)
    evaluation_log.forget_after(model.path, 2)  # a kill during the evaluation of step 4
    longer = dataclasses.replace(model.config.train, train_steps=40)
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, train=longer))
    loop.train(model, infos, dirs)
    found = evaluation_log.read_evaluations(model.path)
    assert [evaluation.step for evaluation in found] == [2, 4, 6] and small_models.latest_step(model) == 6
    assert replica_programs.read_rates(model) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 0.5, 6: 0.5}
    lowest = found[0].metrics["character-error-rate"]
    reason = f"no new lowest error rate on dev in 2 evaluations (the lowest was {lowest:.4f} at step 2)"
    assert log.count(f"training ends at step 6: {reason}") == 1
    loop.train(model, infos, dirs)
    assert log[-1] == f"{model.path}: training stopped early at step 6, {reason}; nothing to do"


def run_worker(peers, is_terminated_after=None, should_stop=False):
    """Runs a worker from step 100; in each step, its peer contributes the next row of `peers` to the sums.

    Returns the number of steps that were run, and True if this worker has to terminate.
    """
    termination, rows = stopping.Termination(), iter(peers)

    def add_peer(own):
        peer = tf.numpy_function(lambda: np.int64(next(rows)), [], tf.int64)
        return own + tf.ensure_shape(peer, [3])

    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        hook = stopping.CoordinatedStopHook(termination, 2, lambda step: should_stop, add_peer)
        train = tf.compat.v1.assign_add(step, 1)
        creator = tf.compat.v1.train.ChiefSessionCreator(
            tf.compat.v1.train.Scaffold(init_op=tf.compat.v1.assign(step, 100))
        )
        with tf.compat.v1.train.MonitoredSession(creator, [hook]) as session:
            for count in range(1, len(peers) + 1):
                session.run(train)
                if session.should_stop():
                    break
                termination.is_requested |= count == is_terminated_after
    return count, termination.is_requested


GOES_ON, TERMINATED = [0, 0, 100], [1, 0, 100]


@pytest.mark.parametrize(
    "peers, options, expected",
    [
        ([GOES_ON] * 3, {}, (3, False)),
        ([GOES_ON, TERMINATED, GOES_ON], {}, (2, True)),  # SIGTERM of one worker stops all
        # A request takes effect in the next step, which all workers share.
        ([GOES_ON] * 3, {"is_terminated_after": 1}, (2, True)),
        ([GOES_ON] * 3, {"should_stop": True}, (1, False)),
        ([GOES_ON, [0, 1, 100], GOES_ON], {}, (2, False)),
        ([GOES_ON, [0, 0, 7]], {}, (2, False)),  # workers compare their start only in the first step
    ],
)
def test_workers_stop_after_the_same_step(peers, options, expected):
    assert run_worker(peers, **options) == expected


def test_workers_that_start_at_different_steps_are_refused():
    sentence = "starts at step 100, but other workers start at a different step; all workers need the same"
    with pytest.raises(errors.UserError, match=sentence):
        run_worker([[0, 0, 50]])
