"""The clock of training steps, and the watch that ends the process if a step does not end."""

import functools
import os
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

STUCK = (paths.script("replica_programs.py"), "stuck")
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


def test_the_time_until_the_labels_arrive_is_measured(session):
    def sleep(value):
        time.sleep(0.05)
        return value

    slow = tf.data.Dataset.range(9).map(lambda index: tf.numpy_function(sleep, [index], tf.int64))
    labels = {"y": tf.compat.v1.data.make_one_shot_iterator(slow).get_next()}
    _, timed, wait = step_time.time_input({"x": tf.constant(0)}, labels)
    waited, numbers = zip(*(session.run([wait, timed["y"]]) for _ in range(2)))
    assert min(waited) > 0.03 and numbers == (0, 1)


def test_the_model_runs_only_after_the_clock_was_read(graph):
    """Otherwise the waiting time would include the model's time if a single thread runs both."""
    batch = tf.compat.v1.placeholder(tf.float32, [])
    features, _, wait = step_time.time_input({"x": batch}, {})
    arrived = wait.op.inputs[0].op
    assert arrived in features["x"].op.control_inputs and batch.op in arrived.control_inputs


@pytest.mark.long
def test_a_tensor_of_one_replica_alone_ends_training_with_the_stacks(tmp_path):
    run = programs.run(*STUCK, str(tmp_path), "0.03", timeout=TIMEOUT_SECONDS)
    assert run.returncode == 75, run.stderr
    stack_of_main_thread = r'replica_programs.py", line \d+ in after_run'
    assert re.search(stack_of_main_thread, run.stderr)
    said = run.stderr.splitlines()[-1]
    assert "minutes (limit: --max_step_minutes=0.03); replica 0 has the sums" in said
    assert said.endswith("the same command continues from the last checkpoint")


@pytest.mark.long
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_stuck_step(tmp_path, number, code):
    output, log = tmp_path / "stdout", tmp_path / "stderr"
    process = programs.start(*STUCK, str(tmp_path), "10", outputs=[output, log])
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (output.exists() and "waits" in output.read_text()):
        assert process.is_alive() and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == code
    said = f"the step did not end within 1 s after signal {number:d}, so no checkpoint was saved"
    assert said in log.read_text()


def test_the_limits_leave_time_to_compile_and_a_minute_to_stop():
    assert training_config.TrainConfig().max_step_minutes == 10
    assert step_time.SIGNAL_SECONDS + 2 * step_time.POLL_SECONDS < 60


class Watched:
    """A StepWatch whose time the test sets; `ended` collects (exit code, message) instead of an exit."""

    def __init__(self, termination, peers=(), **limits):
        self.now, self.ended = 1000.0, []
        worker = cluster_lib.Cluster(("127.0.0.1:1", *peers), None, 0) if peers else None
        self.watch = step_time.StepWatch(
            training_config.TrainConfig(**limits),
            termination,
            worker,
            now=lambda: self.now,
            end=lambda code, sentence: self.ended.append((code, sentence)),
        )

    def check(self, seconds):
        """Lets time pass and checks the step; returns all exit codes so far."""
        self.now += seconds
        self.watch.check()
        return [code for code, _ in self.ended]


@pytest.fixture
def build():
    with stopping.Termination() as termination:
        yield functools.partial(Watched, termination)


def test_the_first_step_has_three_times_the_limit(build):
    watched = build(max_step_minutes=1)
    watched.watch.begin_step(is_first=True)
    assert watched.check(179.0) == []
    watched.watch.begin_step()
    assert watched.check(59.0) == [] and watched.check(1.0) == [75]


def test_the_message_says_what_each_replica_waits_for(build):
    watched = build()
    stages = step_time.HAS_LOSS, step_time.HAS_INPUT, step_time.BEGUN, step_time.NOT_BEGUN
    watched.watch.stages.update(enumerate(stages))
    watched.watch.begin_step()
    watched.check(1800.0)
    assert (
        "replica 0 has its loss and waits for its gradients or the sums over all replicas, "
        "replica 1 has its input and waits for its loss (batch norm sums over all replicas), "
        "replica 2 waits for its input, replica 3 has not begun the step; the same command"
    ) in watched.ended[0][1]


def test_a_worker_that_no_longer_answers_is_dead_and_one_that_never_did_is_missing(build):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = f"127.0.0.1:{listener.getsockname()[1]}"
        watched = build([peer, "127.0.0.1:2"])
        watched.watch.begin_step(is_first=True)
        assert watched.check(1000.0) == []
    assert watched.check(19.0) == []  # a single answer may be lost
    watched.watch.begin_step(is_first=True)  # TensorFlow may have just tried the step again
    assert watched.check(1.0) == [70]
    assert watched.ended[0][1] == (
        f"worker 1 ({peer}) died, so this worker ends too; start all workers again; "
        "the same command continues from the last checkpoint"
    )
    alone = build(["127.0.0.1:2"])
    alone.watch.begin_step()
    alone.check(1800.0)
    assert "; worker 1 (127.0.0.1:2) never answered; the same" in alone.ended[0][1]


def test_a_worker_that_dies_after_the_first_step_is_dead_even_if_never_asked(build):
    watched = build(["127.0.0.1:2"])
    watched.watch.begin_step(is_first=True)
    assert watched.check(1000.0) == []
    watched.watch.end_step()
    assert watched.check(20.0) == [70]


def test_a_checkpoint_before_the_first_step_keeps_the_first_steps_limit(build):
    """A cluster saves when a session is created; each save once restarted the clock, so no limit applied."""
    watched = build(max_step_minutes=1)
    watched.watch.begin_step(is_first=True)
    assert watched.check(160.0) == []
    for _ in range(2):
        watched.watch.clock.pause()
        assert watched.check(10_000.0) == []
        watched.watch.clock.resume()
    assert watched.check(19.0) == [] and watched.check(1.0) == [75]


def test_the_thread_checks_while_a_step_runs(build, monkeypatch):
    monkeypatch.setattr(step_time, "POLL_SECONDS", 0.01)
    watched = build()
    watched.watch.begin_step()
    watched.now += 600.0
    with watched.watch:
        deadline = time.monotonic() + 30
        while not watched.ended and time.monotonic() < deadline:
            time.sleep(0.01)
    assert watched.ended[0][0] == 75


class Noting(estimator_api.SessionRunHook):
    """Records the clock at the start of each step; then lets ten seconds pass and calls a function."""

    def __init__(self, watched, then=lambda: None):
        self.seconds, self._watched, self._then = [], watched, then

    def before_run(self, run_context):
        assert self._watched.watch.clock.is_running
        self.seconds.append(self._watched.watch.clock.seconds)
        self._watched.now += 10.0
        self._then()


def make_hook(watched):
    one = tf.constant(1.0)
    update = types.SimpleNamespace(loss=one, gradient_norm=one)
    step = types.SimpleNamespace(wait=one, scalars={"total-loss": one}, update=update)
    return step_time.StepWatchHook(watched.watch, step)


def run_steps(watched, noting, num_steps):
    with tf.Graph().as_default():
        hooks, one = [make_hook(watched), noting], tf.constant(1.0)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            for _ in range(num_steps):
                session.run(one)
                watched.watch.clock.pause()  # a checkpoint would do this


def test_a_session_that_is_created_again_begins_no_step(build):
    """While a worker is dead, TensorFlow recreates the session again and again; the clock keeps running."""

    def fail():
        if len(noting.seconds) < 4:
            raise tf.errors.UnavailableError(None, None, "closed")
        raise ZeroDivisionError

    watched = build()
    noting = Noting(watched, fail)
    with pytest.raises(ZeroDivisionError):
        run_steps(watched, noting, 1)
    assert noting.seconds == [0.0, 10.0, 20.0, 30.0]


def test_the_step_after_a_checkpoint_is_watched(build):
    watched = build()
    noting = Noting(watched)
    run_steps(watched, noting, 3)
    assert noting.seconds == [0.0] * 3


class Saver(tf.compat.v1.train.Saver):
    """Records whether the clock runs during each save; may fail as if a worker had died."""

    def watch(self, watched, fails=False):
        self.watched, self.fails, self.is_running = watched, fails, []
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVERS, self)
        return self

    def save(self, *arguments, **options):
        self.is_running.append(self.watched.watch.clock.is_running)
        if self.fails:
            raise tf.errors.UnavailableError(None, None, "closed")
        return super().save(*arguments, **options)


def test_a_hook_that_saves_pauses_the_watch(build, graph, tmp_path):
    """A cluster's workers have no listeners, so a long save once looked like a step that hangs."""
    watched = build()
    step = tf.compat.v1.train.create_global_step().assign_add(1)
    saver = Saver().watch(watched)
    settings = dict(checkpoint_dir=str(tmp_path), save_checkpoint_steps=2, hooks=[make_hook(watched)])
    with tf.compat.v1.train.MonitoredTrainingSession(**settings) as session:
        for _ in range(4):
            session.run(step)
            assert watched.watch.clock.is_running
    assert saver.is_running == [False] * 3  # saved before the first step, during training and at the end


def test_the_watch_continues_after_a_failed_save(build, graph):
    """If a worker died during a save, the clock once stayed paused while TensorFlow tried again forever."""
    watched = build()
    tf.compat.v1.train.create_global_step()
    saver, hook = Saver().watch(watched, fails=True), make_hook(watched)
    hook.begin()
    hook.after_run(None, None)
    with pytest.raises(tf.errors.UnavailableError):
        saver.save(None, "unused")
    assert watched.watch.clock.is_running
