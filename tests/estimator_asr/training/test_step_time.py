"""The clock of training steps, and steps that do not end: replicas that wait for each other; verdicts."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import time
import types

import paths
import programs
import pytest
import tensorflow as tf

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.training import step_time, stopping
from estimator_asr.training.distributed import cluster as cluster_lib

STUCK = str(paths.script("stuck_replicas.py"))
TIMEOUT_SECONDS = 240


def test_the_clock_stands_still_between_pause_and_resume():
    now = [100.0]
    clock = step_time.Clock(lambda: now[0])
    now[0] += 5
    assert clock.seconds == 0
    clock.resume()
    now[0] += 2
    assert clock.seconds == 2
    clock.pause()
    now[0] += 100
    clock.resume()
    clock.resume()
    now[0] += 1
    assert clock.seconds == 3


def test_the_time_until_the_labels_arrive_is_measured():
    def sleep(value):
        time.sleep(0.05)
        return value

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        slow = tf.data.Dataset.range(9).map(lambda index: tf.numpy_function(sleep, [index], tf.int64))
        labels = {"y": tf.compat.v1.data.make_one_shot_iterator(slow).get_next()}
        _, timed, wait = step_time.time_input({"x": tf.constant(0)}, labels)
        waited, numbers = zip(*(session.run([wait, timed["y"]]) for _ in range(2)))
    assert min(waited) > 0.03 and numbers == (0, 1)


def test_the_model_runs_only_after_the_clock_was_read():
    """Otherwise the waiting time would include the model's time if a single thread runs both."""
    with tf.Graph().as_default():
        given = tf.compat.v1.placeholder(tf.float32, [])
        features, _, wait = step_time.time_input({"x": given}, {})
        arrived = wait.op.inputs[0].op
        assert arrived in features["x"].op.control_inputs
        assert given.op in arrived.control_inputs


@pytest.mark.long
def test_a_tensor_of_one_replica_alone_ends_training_with_the_stacks(tmp_path):
    run = programs.run(STUCK, str(tmp_path), "0.03", timeout=TIMEOUT_SECONDS)
    assert run.returncode == 75, run.stderr
    assert re.search(r'stuck_replicas.py", line \d+ in after_run', run.stderr)  # the stack of the main thread
    said = run.stderr.splitlines()[-1]
    assert "minutes (limit: --max_step_minutes=0.03); replica 0 has the sums" in said
    assert said.endswith("the same command continues from the last checkpoint")


@pytest.mark.long
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_stuck_step(tmp_path, number, code):
    outputs = [str(tmp_path / name) for name in ("stdout", "stderr")]
    process = programs.start(STUCK, str(tmp_path), "10", outputs=outputs)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (os.path.exists(outputs[0]) and "waits" in pathlib.Path(outputs[0]).read_text()):
        assert process.is_alive() and time.monotonic() < deadline, pathlib.Path(outputs[1]).read_text()
        time.sleep(0.1)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == code
    assert (
        f"the step has not ended 1 s after signal {number:d}, so no checkpoint was saved"
        in pathlib.Path(outputs[1]).read_text()
    )


def test_the_limits_leave_time_to_compile_and_a_minute_to_stop():
    config = training_config.TrainConfig()
    assert (config.max_first_step_minutes, config.max_step_minutes) == (30, 10)
    assert step_time._SIGNAL_SECONDS + 2 * step_time._POLL_SECONDS < 60


@pytest.fixture
def ended(monkeypatch):
    """What the process would have ended with."""
    codes = []
    monkeypatch.setattr(step_time, "_end", lambda *arguments, **options: codes.append(arguments))
    return codes


@pytest.fixture
def make_watch():
    def make(peers=(), **limits):
        worker = cluster_lib.Cluster(("127.0.0.1:1", *peers), None, 0) if peers else None
        return step_time.StepWatch(training_config.TrainConfig(**limits), termination, worker)

    with stopping.Termination() as termination:
        yield make


def test_the_first_step_has_a_limit_of_its_own(ended, make_watch):
    watch = make_watch(max_first_step_minutes=2, max_step_minutes=1)
    watch.begin_step(is_first=True)
    watch._judge(119.0)
    assert ended == []
    watch.begin_step()
    watch._judge(59.0)
    assert ended == []
    watch._judge(60.0)
    assert [code for code, _ in ended] == [75]


def test_the_message_says_what_each_replica_waits_for(ended, make_watch):
    watch = make_watch()
    stages = step_time._LOSS, step_time._INPUT, step_time._BEGUN, step_time._NOT_BEGUN
    watch.stages = dict(enumerate(stages))
    watch._judge(1800.0)
    ((_, sentence),) = ended
    assert (
        "replica 0 has its loss and waits for its gradients or the sums over all replicas, "
        "replica 1 has its input and waits for its loss (batch norm sums over all replicas), "
        "replica 2 waits for its input, replica 3 has not begun the step; the same command"
    ) in sentence


def test_a_worker_that_no_longer_answers_is_dead_and_one_that_never_did_is_missing(ended, make_watch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = f"127.0.0.1:{listener.getsockname()[1]}"
        watch = make_watch([peer, "127.0.0.1:2"])
        watch._peers.ask()
        watch._judge(1000.0)
    assert ended == []
    watch._peers.ask()
    watch._judge(20.0)  # a single answer may be lost
    assert ended == []
    watch._peers._answered[1] -= 20.0
    watch._judge(0.0)  # TensorFlow may have tried it again just now
    assert ended == [
        (
            70,
            f"worker 1 ({peer}) died, so this worker ends too; start all workers again; "
            "the same command continues from the last checkpoint",
        )
    ]
    assert watch._describe() == "worker 2 (127.0.0.1:2) never answered"


class Noting(estimator_api.SessionRunHook):
    """Notes since when the step runs that begins, and then calls a function."""

    def __init__(self, watch, then):
        self.since, self._watch, self._then = [], watch, then

    def before_run(self, run_context):
        self.since.append(self._watch._since)
        self._then()


def make_hook(watch):
    one = tf.constant(1.0)
    update = types.SimpleNamespace(loss=one, gradient_norm=one)
    step = types.SimpleNamespace(wait=one, scalars={"total-loss": one}, update=update)
    return step_time.StepWatchHook(watch, step)


def run_steps(watch, noting, num_steps):
    with tf.Graph().as_default():
        hooks, one = [make_hook(watch), noting], tf.constant(1.0)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            for _ in range(num_steps):
                session.run(one)
                watch.pause()  # as a checkpoint does


def test_a_session_that_is_created_again_begins_no_step(make_watch):
    """While a worker is dead, TensorFlow creates session after session; the time of the step continues."""

    def fail():
        if len(noting.since) < 4:
            raise tf.errors.UnavailableError(None, None, "closed")
        raise ZeroDivisionError

    noting = Noting(make_watch(), fail)
    with pytest.raises(ZeroDivisionError):
        run_steps(noting._watch, noting, 1)
    assert len(noting.since) == 4 and len(set(noting.since)) == 1


def test_a_session_that_is_created_again_and_saves_again_begins_no_step(make_watch):
    """A cluster saves whenever a session is created; each save restarted the time, so it never ran out."""
    watch = make_watch()
    watch.begin_step()
    watch._since -= 100.0
    for _ in range(2):
        watch.pause()
        assert watch._since is None
        watch.resume()
    assert time.monotonic() - watch._since >= 100.0


def test_a_checkpoint_before_the_first_step_keeps_the_first_steps_limit(ended, make_watch):
    watch = make_watch(max_first_step_minutes=2, max_step_minutes=1)
    watch.begin_step(is_first=True)
    watch.pause()
    watch.resume()
    watch._judge(119.0)
    assert ended == []
    watch._judge(120.0)
    assert [code for code, _ in ended] == [75]


def test_the_step_after_a_checkpoint_is_watched(make_watch):
    noting = Noting(make_watch(), lambda: None)
    run_steps(noting._watch, noting, 3)
    assert None not in noting.since and len(set(noting.since)) == 3


def test_a_hook_that_saves_pauses_the_watch(make_watch, tmp_path):
    """Workers of a cluster have no listeners, so a long save looked like a step that hangs."""
    watch, saved_at = make_watch(), []

    class Saver(tf.compat.v1.train.Saver):
        def save(self, *arguments, **options):
            saved_at.append(watch._since)
            return super().save(*arguments, **options)

    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step().assign_add(1)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVERS, Saver())
        settings = dict(checkpoint_dir=str(tmp_path), save_checkpoint_steps=2, hooks=[make_hook(watch)])
        with tf.compat.v1.train.MonitoredTrainingSession(**settings) as session:
            for _ in range(4):
                session.run(step)
                assert watch._since is not None
    assert saved_at == [None] * 3  # before the first step, on the way and at the end


def test_the_watch_continues_after_a_failed_save(make_watch):
    """If a worker died during a save, the watch stayed paused while TensorFlow tried again forever."""

    class Saver(tf.compat.v1.train.Saver):
        def save(self, *arguments, **options):
            raise tf.errors.UnavailableError(None, None, "closed")

    watch = make_watch()
    with tf.Graph().as_default():
        saver = Saver([tf.compat.v1.train.create_global_step()])
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVERS, saver)
        hook = make_hook(watch)
        hook.begin()
        hook.after_run(None, None)
        with pytest.raises(tf.errors.UnavailableError):
            saver.save(None, "unused")
    assert watch._since is not None


def test_a_worker_that_dies_after_the_first_step_is_dead_even_if_never_asked(ended, make_watch):
    watch = make_watch(["127.0.0.1:2"])
    watch.begin_step(is_first=True)
    watch._judge(1000.0)
    assert ended == []
    watch.end_step()
    watch._peers._answered[1] -= 20.0
    watch._judge(20.0)
    assert [code for code, _ in ended] == [70]


def test_nothing_is_watched_while_a_checkpoint_is_saved(ended, make_watch, monkeypatch):
    monkeypatch.setattr(step_time, "_POLL_SECONDS", 0.01)
    watch = make_watch(max_step_minutes=1e-6)
    with watch:
        watch.begin_step()
        watch.pause()
        time.sleep(0.1)
        assert ended == []
        watch.begin_step()
        deadline = time.monotonic() + 30
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ended[0][0] == 75
