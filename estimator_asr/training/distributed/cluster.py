"""TF_CONFIG: the cluster of a distributed training, and the task of this process in it.

    {"cluster": {"worker": ["a:2222", "b:2222"], "evaluator": ["c:2222"]},
     "task": {"type": "worker", "index": 0}}

The chief, or the first worker if there is none, writes the model directory. The evaluator evaluates each
checkpoint and does not train. All processes have the same cluster and different tasks.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Optional

from tfrecord_builder import errors

VARIABLE = "TF_CONFIG"
_TYPES = ("chief", "worker", "evaluator")
_EXAMPLE = '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The processes of a distributed training, and which of them this one is.

    Attributes:
        workers: host:port of each worker, the chief first.
        evaluator: host:port, never connected to; None if no evaluator is listed.
        rank: index of this process in workers; None for the evaluator.
    """

    workers: tuple[str, ...]
    evaluator: Optional[str]
    rank: Optional[int]

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @property
    def is_evaluator(self) -> bool:
        return self.rank is None

    @property
    def name(self) -> str:
        """Name in log lines and files: chief, worker-1, worker-2, ..., evaluator."""
        return "evaluator" if self.is_evaluator else f"worker-{self.rank}" if self.rank else "chief"

    def to_json(self) -> str:
        """Returns TF_CONFIG for tf.estimator: always with a chief, which its evaluator needs."""
        jobs = {"chief": self.workers[:1], "worker": self.workers[1:], "evaluator": [self.evaluator]}
        listed = {job: list(tasks) for job, tasks in jobs.items() if any(tasks)}
        if self.is_evaluator:
            task = {"type": "evaluator", "index": 0}
        else:
            task = {"type": "worker", "index": self.rank - 1} if self.rank else {"type": "chief", "index": 0}
        return json.dumps({"cluster": listed, "task": task})


def read(environment: Mapping[str, str] = os.environ) -> Optional[Cluster]:
    """Returns the cluster that TF_CONFIG describes; None for a single process.

    Raises:
        errors.UserError: TF_CONFIG is not valid JSON, or its cluster or task is not supported.
    """
    text = environment.get(VARIABLE, "").strip()
    cluster = parse(text) if text else None
    is_alone = cluster and len(cluster.workers) == 1 and cluster.evaluator is None and cluster.is_chief
    return None if is_alone else cluster


def write(cluster: Optional[Cluster], environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets TF_CONFIG to the form that tf.estimator expects; removes it for None (a single process)."""
    if cluster is None:
        environment.pop(VARIABLE, None)  # tf.estimator refuses a cluster of one worker
    else:
        environment[VARIABLE] = cluster.to_json()


def parse(text: str) -> Optional[Cluster]:
    """Returns the cluster of a TF_CONFIG text; None if it has none. Raises errors.UserError as read does."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _error(f"is not valid JSON ({error})", _EXAMPLE) from None
    if not isinstance(value, dict):
        raise _error(f"is {text}", _EXAMPLE)
    if not value.get("cluster"):
        return None
    jobs = _read_jobs(value["cluster"])
    return _find_task(jobs, value.get("task"))


def check_port(cluster: Cluster) -> None:
    """Checks that the port of this worker is free; the evaluator listens nowhere.

    Raises:
        errors.UserError: another process uses the port.
    """
    if cluster.is_evaluator:
        return
    address = cluster.workers[cluster.rank]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", int(address.rpartition(":")[2])))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise errors.UserError(
                    f"{VARIABLE}: cannot listen on {address} of this task ({error.strerror}), expected a "
                    "free port; end the process that uses it or choose another port"
                ) from None
            raise


def _read_jobs(value):
    if not isinstance(value, Mapping):
        raise _error(f"cluster is {value!r}", _EXAMPLE)
    if "ps" in value:
        raise errors.UserError(
            f"{VARIABLE}: cluster has ps, expected {', '.join(_TYPES)}; make every machine a worker, "
            "because parameter servers never exit and do not synchronise the workers"
        )
    unknown = sorted(set(value) - set(_TYPES))
    if unknown:
        raise _error(f"has {', '.join(unknown)} in its cluster", f"{', '.join(_TYPES)}")
    jobs = {job: _read_addresses(job, value.get(job, [])) for job in _TYPES}
    for job in ("chief", "evaluator"):
        if len(jobs[job]) > 1:
            raise _error(f"has {len(jobs[job])} tasks of type {job}", "at most one")
    if not jobs["chief"] + jobs["worker"]:
        raise _error("has no worker in its cluster", "at least one")
    return jobs


def _read_addresses(job, addresses):
    if not isinstance(addresses, list):
        raise _error(f"{job} is {addresses!r}", "a list of HOST:PORT")
    for address in addresses:
        host, _, port = str(address).rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise _error(f"{job} address is {address!r}", "HOST:PORT with a port from 1 to 65535")
    return addresses


def _find_task(jobs, task):
    if not isinstance(task, Mapping) or not isinstance(task.get("index", 0), int):
        raise _error(f"task is {task!r}", 'for example {"type": "worker", "index": 0}')
    workers = tuple(jobs["chief"] + jobs["worker"])
    if len(set(workers)) < len(workers):
        raise _error(f"workers are {', '.join(workers)}", "different addresses")
    task_type, index = task.get("type"), task.get("index", 0)
    if task_type not in _TYPES:
        raise _error(f"task type is {task_type!r}", f"one of {', '.join(_TYPES)}")
    # The evaluator may be missing in the cluster: Kubeflow does not list it.
    count = max(len(jobs[task_type]), int(task_type == "evaluator"))
    if not 0 <= index < count:
        raise _error(f"task is {task_type} {index}", f"an index below {count} in this cluster")
    rank = None if task_type == "evaluator" else index + (len(jobs["chief"]) if task_type == "worker" else 0)
    return Cluster(workers, (jobs["evaluator"] or [None])[0], rank)


def _error(what, expected):
    return errors.UserError(f"{VARIABLE}: {what}, expected {expected}; fix it for each process")
