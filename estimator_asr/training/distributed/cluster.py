"""TF_CONFIG: the cluster for distributed training, and this process's task in it.

    {"cluster": {"worker": ["a:2222", "b:2222"], "evaluator": ["c:2222"]},
     "task": {"type": "worker", "index": 0}}

The chief (the first worker if no chief is listed) writes the model directory. The evaluator evaluates
checkpoints and does not train. TF_CONFIG has the same cluster in all processes, but a different task in each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.program import config_json

VARIABLE = "TF_CONFIG"
_ANSWER_SECONDS = 2.0  # timeout for connecting to another worker
_TYPES = ("chief", "worker", "evaluator")
_EXAMPLE = '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The processes that train together, and the rank of this process among them."""

    workers: tuple[str, ...]  # host:port of each worker, starting with the chief
    evaluator: Optional[str]  # host:port of the evaluator, to which nothing connects; None if not listed
    rank: Optional[int]  # index of this process in workers; None for the evaluator

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @property
    def is_evaluator(self) -> bool:
        return self.rank is None

    @property
    def shares_host(self) -> bool:
        """True if, according to the addresses, the evaluator runs on the same machine as a worker."""
        hosts = {address.rpartition(":")[0] for address in self.workers}
        return self.evaluator is not None and self.evaluator.rpartition(":")[0] in hosts

    @property
    def name(self) -> str:
        """Name for log lines and files: chief, worker-1, worker-2, ..., evaluator."""
        return "evaluator" if self.is_evaluator else f"worker-{self.rank}" if self.rank else "chief"

    def to_json(self) -> str:
        """Returns TF_CONFIG for tf.estimator; it always lists a chief, because the evaluator needs one."""
        jobs = {"chief": self.workers[:1], "worker": self.workers[1:], "evaluator": [self.evaluator]}
        job = "evaluator" if self.is_evaluator else "worker" if self.rank else "chief"
        return json.dumps(
            {
                "cluster": {name: list(tasks) for name, tasks in jobs.items() if any(tasks)},
                "task": {"type": job, "index": self.rank - 1 if self.rank else 0},
            }
        )


def read_tf_config(environment: Mapping[str, str] = os.environ) -> Optional[Cluster]:
    """Returns the cluster that TF_CONFIG describes, or None if this process trains alone.

    Raises errors.UserError if TF_CONFIG is not valid JSON, or its cluster or task is not supported.
    """
    text = environment.get(VARIABLE, "").strip()
    cluster = parse_tf_config(text) if text else None
    is_alone = cluster and cluster.is_chief and len(cluster.workers) == 1 and cluster.evaluator is None
    return None if is_alone else cluster


def write_tf_config(cluster: Optional[Cluster], environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets TF_CONFIG in the form that tf.estimator expects; removes it if the cluster is None."""
    if cluster is None:
        environment.pop(VARIABLE, None)  # tf.estimator rejects a cluster with a single worker
    else:
        environment[VARIABLE] = cluster.to_json()


def parse_tf_config(text: str) -> Optional[Cluster]:
    """Parses TF_CONFIG; returns None if there is no cluster. Raises the same errors as read_tf_config."""
    try:
        value = config_json.parse(text)
    except ValueError as error:
        raise _error(f"the value is not valid JSON ({error}), expected {_EXAMPLE}") from None
    _require(isinstance(value, dict), f"the value is {text}, expected {_EXAMPLE}")
    jobs = value.get("cluster")
    if not jobs:
        return None
    _check_jobs(jobs)
    workers, evaluators = (*jobs.get("chief", ()), *jobs.get("worker", ())), jobs.get("evaluator")
    _require(workers, "the cluster has no worker; list at least one")
    _require(len(set(workers)) == len(workers), f"some workers have the same address: {', '.join(workers)}")
    return Cluster(workers, evaluators[0] if evaluators else None, _find_rank(jobs, value.get("task")))


def _check_jobs(jobs):
    types = ", ".join(_TYPES)
    _require(isinstance(jobs, dict), f"cluster is {jobs!r}, expected the form {_EXAMPLE}")
    _require("ps" not in jobs, f"ps is not supported, because parameter servers never exit; use only {types}")
    _require(set(jobs) <= set(_TYPES), f"cluster lists {', '.join(sorted(jobs))}, expected only {types}")
    for job, addresses in jobs.items():
        _require(isinstance(addresses, list), f"{job} is {addresses!r}, expected a list of HOST:PORT")
        at_most_one = job == "worker" or len(addresses) < 2
        _require(at_most_one, f"the cluster has {len(addresses)} tasks of type {job}, expected at most one")
        for address in addresses:
            host, _, port = str(address).rpartition(":")
            is_valid = host and port.isdigit() and 0 < int(port) < 65536
            expected = "HOST:PORT with a port from 1 to 65535"
            _require(is_valid, f"{job} address is {address!r}, expected {expected}")


def _find_rank(jobs, task):
    """Returns the rank of the task among all workers; None for the evaluator."""
    is_valid = isinstance(task, dict) and isinstance(task.get("index", 0), int)
    _require(is_valid, f'task is {task!r}, expected the form {{"type": "worker", "index": 0}}')
    job, index = task.get("type"), task.get("index", 0)
    _require(job in _TYPES, f"task type is {job!r}, expected one of {', '.join(_TYPES)}")
    # The evaluator may be missing from the cluster, because Kubeflow does not list it.
    count = 1 if job == "evaluator" else len(jobs.get(job, ()))
    message = f"task is {job} {index}, but the cluster has {count} tasks of this type, numbered from 0"
    _require(0 <= index < count, message)
    if job == "evaluator":
        return None
    return index + (len(jobs.get("chief", ())) if job == "worker" else 0)


def _require(condition, message):
    if not condition:
        raise _error(message)


def _error(message):
    return errors.UserError(f"{VARIABLE}: {message}. Fix the variable in all processes")


def check_port(cluster: Cluster) -> None:
    """Raises errors.UserError if another process is using this worker's port."""
    address = cluster.workers[cluster.rank]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", int(address.rpartition(":")[2])))
        except OSError as error:
            raise errors.UserError(
                f"{VARIABLE}: cannot listen on {address}, the address of this task ({error.strerror}); end "
                "the process that uses the port, or choose another port"
            ) from None


class Peers:
    """The other workers of a cluster, and the times of their last answers; empty if there is no cluster."""

    def __init__(self, cluster: Optional[Cluster], now: Callable[[], float] = time.monotonic):
        workers = {} if cluster is None or cluster.is_evaluator else dict(enumerate(cluster.workers))
        self._addresses = {rank: address for rank, address in workers.items() if rank != cluster.rank}
        self._now, self._answered = now, {}  # time of each worker's last answer, keyed by rank

    def ask(self) -> None:
        """Connects to all other workers in parallel, waiting at most _ANSWER_SECONDS for each."""
        threads = [
            # The threads are daemons, so that a slow DNS lookup does not keep the program from exiting.
            threading.Thread(target=self._ask, args=worker, daemon=True)
            for worker in self._addresses.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _ask(self, rank, address):
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError):
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
            self._answered[rank] = self._now()

    def confirm(self) -> None:
        """Records an answer from every worker, since a collective has just ended."""
        self._answered.update(dict.fromkeys(self._addresses, self._now()))

    def find_dead(self, seconds: float) -> list[str]:
        """Returns the workers that have answered before, but not within the last `seconds`."""
        latest = self._now() - seconds
        return [self._describe(rank) for rank, last in sorted(self._answered.items()) if last <= latest]

    def describe_missing(self) -> list[str]:
        """Returns, for each worker that has never answered, a clause to use in a message."""
        missing = sorted(set(self._addresses) - set(self._answered))
        return [f"{self._describe(rank)} never answered" for rank in missing]

    def _describe(self, rank):
        return f"worker {rank} ({self._addresses[rank]})"
