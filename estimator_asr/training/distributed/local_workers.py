"""--num_local_workers: starts workers and an evaluator on this machine, and starts them again when one dies.

A worker that dies leaves the others waiting for ever, and one that is started again alone is refused by
them. So all are ended and started again from the last checkpoint. The chief writes to the terminal, the
others to MODEL_DIR/worker-1.log and so on; the evaluator to MODEL_DIR/evaluator.log and to the terminal.
"""

from __future__ import annotations

import glob
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Sequence

from absl import logging

from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import worker_process
from tfrecord_builder import errors

MAX_RESTARTS_WITHOUT_PROGRESS = 3
EXIT_TERMINATED = 128 + signal.SIGTERM
_EXIT_USER_ERROR = 1  # a restart does not cure it
_EXIT_INTERRUPTED = 128 + signal.SIGINT
_POLL_SECONDS = 0.1
_OTHERS_END_SECONDS = 5.0  # what is wrong for one is wrong for all, and each says so
_NUM_LAST_LINES = 10
_HOST = "127.0.0.1"


class Launcher:
    """Runs the processes to their common end."""

    def __init__(self, command: Sequence[str], num_workers: int, model_dir: str, num_gpus: int = 0):
        """Starts nothing yet.

        Args:
            command: the training program with its flags; which worker it is stands in TF_CONFIG.
            num_workers: of them, the evaluator not counted.
            model_dir: where checkpoints and logs are; exists.
            num_gpus: of this machine; each worker gets its share, the evaluator none.

        Raises:
            errors.UserError: there are GPUs, but not one for each worker.
        """
        if 0 < num_gpus < num_workers:
            raise errors.UserError(
                f"train: --num_local_workers is {num_workers}, expected at most {num_gpus}, the GPUs of this "
                "machine; leave it out, for one process trains on all of them"
            )
        self._command = list(command)
        self._num_workers = num_workers
        self._model_dir = model_dir
        self._num_gpus = num_gpus
        self._processes = []
        self._asked = []  # signals that came
        self._restarts = 0
        self._step = -1

    def run(self) -> int:
        """Returns the exit code: 0 when training and evaluation came to their end.

        Raises:
            errors.UserError: a process refused its task, or died again and again without a new checkpoint.
            KeyboardInterrupt: a second signal came.
        """
        log = os.path.join(self._model_dir, "evaluator.log")
        forwarder = worker_process.LineForwarder(log, "evaluator: ", sys.stderr)
        previous = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._start_all()
            exit_code = None
            while exit_code is None:
                time.sleep(_POLL_SECONDS)
                self._forward_signals()
                exit_code = self._look_after()
            return exit_code
        finally:
            for process in self._processes:
                process.kill()
            forwarder.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _ask(self, number, frame):
        self._asked.append(number)

    def _start_all(self):
        self._step = latest_step(self._model_dir)
        ports = _free_ports(self._num_workers + 1)
        *workers, evaluator = (f"{_HOST}:{port}" for port in ports)
        ranks = [*range(self._num_workers), None]
        clusters = [cluster_lib.Cluster(tuple(workers), evaluator, rank) for rank in ranks]
        self._processes = [self._start(cluster) for cluster in clusters]
        self._forwarded = 0

    def _start(self, cluster):
        environment = {**os.environ, cluster_lib.VARIABLE: cluster.to_json()}
        if self._num_gpus:
            gpus = [] if cluster.is_evaluator else range(self._num_gpus)[cluster.rank :: self._num_workers]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus)) or "-1"
        path = "" if cluster.is_chief else os.path.join(self._model_dir, f"{cluster.name}.log")
        return worker_process.WorkerProcess(cluster.name, self._command, environment, path)

    def _forward_signals(self):
        """The first signal asks the workers to save and end, a second one ends them at once."""
        if len(self._asked) > 1:
            raise KeyboardInterrupt
        if len(self._asked) > self._forwarded:
            self._forwarded = len(self._asked)
            logging.info("the workers save a checkpoint and end; a second signal ends them at once")
            for process in self._processes:
                process.send_signal(signal.SIGTERM)

    def _look_after(self):
        """Returns the exit code if there is no more to do; starts all again if one died."""
        codes = [process.exit_code for process in self._processes]
        failed = [process for process in self._processes if process.exit_code not in (None, 0)]
        if not failed or self._asked:
            # One that dies before it can stop in order holds up the others.
            is_stuck = any(code not in (None, 0, EXIT_TERMINATED) for code in codes[:-1])
            is_over = None not in (codes[:-1] if self._asked else codes)
            return self._exit_code(codes) if is_over or is_stuck else None
        if failed[0].exit_code == EXIT_TERMINATED:
            self._asked.append(signal.SIGTERM)  # somebody told it alone
        elif failed[0].exit_code == _EXIT_USER_ERROR:
            return self._refuse(failed[0])
        else:
            self._restart_all(failed[0])
        return None

    def _exit_code(self, codes):
        if not self._asked or not any(codes):
            return 0
        return EXIT_TERMINATED if self._asked[0] == signal.SIGTERM else _EXIT_INTERRUPTED

    def _refuse(self, process):
        """Ends with the sentence of the process, or without one if the chief has said it."""
        deadline = time.monotonic() + _OTHERS_END_SECONDS
        chief = self._processes[0]
        while chief.exit_code is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if chief.exit_code == _EXIT_USER_ERROR:
            return _EXIT_USER_ERROR
        (line,) = process.last_lines(1) or [process.describe_end()]
        raise errors.UserError(line.removeprefix("error: "))

    def _restart_all(self, process):
        has_progress = latest_step(self._model_dir) > self._step
        self._restarts = 1 if has_progress else self._restarts + 1
        if self._restarts > MAX_RESTARTS_WITHOUT_PROGRESS:
            for line in process.last_lines(_NUM_LAST_LINES):
                logging.error("%s: %s", process.name, line)
            raise errors.UserError(
                f"{self._model_dir}: {process.describe_end()} after {MAX_RESTARTS_WITHOUT_PROGRESS} restarts "
                "without a new checkpoint, expected progress; see the last lines of its log, and save more "
                "often by --save_checkpoints_steps"
            )
        logging.warning("%s; all start again from the last checkpoint", process.describe_end())
        for other in self._processes:
            other.kill()
        self._start_all()


def run(command: Sequence[str], num_workers: int, model_dir: str, num_gpus: int = 0) -> int:
    """Starts the processes and returns the exit code when the last has ended; see Launcher."""
    logging.info(
        "%d workers and an evaluator on this machine; logs in %s",
        num_workers,
        os.path.join(model_dir, "*.log"),
    )
    return Launcher(command, num_workers, model_dir, num_gpus).run()


def latest_step(model_dir: str) -> int:
    """Returns the step of the newest whole checkpoint; -1: there is none."""
    names = glob.glob(os.path.join(glob.escape(model_dir), "model.ckpt-*.index"))
    return max((int(re.findall(r"model\.ckpt-(\d+)\.index$", name)[0]) for name in names), default=-1)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens at; held together, so that each is another."""
    listeners = [socket.socket() for _ in range(count)]
    try:
        for listener in listeners:
            listener.bind((_HOST, 0))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
