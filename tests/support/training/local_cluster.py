"""Starts the workers and the evaluator of a cluster on this machine, as a job scheduler would."""

import contextlib
import os
import pathlib
import socket
from collections.abc import Iterator, Sequence

import programs

from estimator_asr.training.distributed import cluster


class LocalCluster:
    """A cluster's running processes, with one log file for each: chief.log, worker-1.log, evaluator.log."""

    def __init__(self, command: Sequence[str], num_workers: int, log_dir: pathlib.Path):
        self._log_dir = log_dir
        log_dir.mkdir(parents=True, exist_ok=True)
        *workers, evaluator = (f"127.0.0.1:{port}" for port in _free_ports(num_workers + 1))
        tasks = [cluster.Cluster(tuple(workers), evaluator, rank) for rank in [*range(num_workers), None]]
        self.processes = {task.name: self._start(command, task) for task in tasks}

    def _start(self, command, task):
        log = self._log_dir / f"{task.name}.log"
        return programs.start(*command, outputs=[log, log], environment={cluster.VARIABLE: task.to_json()})

    def read_log(self, name: str) -> str:
        """Returns the output of a process, preceded by the output of earlier runs in this directory."""
        return (self._log_dir / f"{name}.log").read_text(errors="replace")

    def send_signal(self, name: str, number: int) -> None:
        os.kill(self.processes[name].pid, number)

    def wait(self, timeout: float) -> dict[str, int]:
        """Waits for all processes; returns their exit codes, None for a process that is still running."""
        for process in self.processes.values():
            process.join(timeout)
        return {name: process.exitcode for name, process in self.processes.items()}


@contextlib.contextmanager
def start(command: Sequence[str], num_workers: int, log_dir: pathlib.Path) -> Iterator[LocalCluster]:
    """Starts `python -m command` in each process; kills the processes that still run after the block."""
    started = LocalCluster(command, num_workers, log_dir)
    try:
        yield started
    finally:
        for process in started.processes.values():
            process.kill()
            process.join()


def _free_ports(count):
    """Returns free ports; they are bound at the same time, so that no two are the same."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]
