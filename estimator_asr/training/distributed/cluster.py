"""TF_CONFIG: which of the processes that train together this one is. Checked before anything starts.

    {"cluster": {"worker": ["a:2222", "b:2222"], "evaluator": ["c:2222"]},
     "task": {"type": "worker", "index": 0}}

The chief, or the first worker where there is none, writes the model directory. The evaluator takes no part in
training: it evaluates each checkpoint. Every task has the same cluster and its own task.
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
    """Who trains together, and which of them this process is.

    Attributes:
        workers: host:port of each, the chief first.
        evaluator: host:port, never connected to; None: the evaluator is not listed.
        rank: place of this process in workers; None: it is the evaluator.
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
        """What log lines and files call this process: chief, worker-1 and so on, evaluator."""
        return "evaluator" if self.is_evaluator else f"worker-{self.rank}" if self.rank else "chief"

    def to_json(self) -> str:
        """Returns the TF_CONFIG that tf.estimator takes: always with a chief, which the evaluator needs."""
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
    """Returns the cluster that the text of TF_CONFIG describes; None: it describes none.

    Raises:
        errors.UserError: see read.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _error(f"is not JSON ({error})", _EXAMPLE) from None
    if not isinstance(value, dict):
        raise _error(f"is {text}", _EXAMPLE)
    if not value.get("cluster"):
        return None
    jobs = _read_jobs(value["cluster"])
    return _find_task(jobs, value.get("task"))


def check_port(cluster: Cluster) -> None:
    """Checks that a server can listen at this process's own address.

    Raises:
        errors.UserError: the port is taken.
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
                    f"{VARIABLE}: {address} of this task cannot be listened at ({error.strerror}), expected "
                    "a free port; end the process that holds it or give another one"
                ) from None
            raise


def _read_jobs(value):
    if not isinstance(value, Mapping):
        raise _error(f"has the cluster {value!r}", _EXAMPLE)
    if "ps" in value:
        raise errors.UserError(
            f"{VARIABLE}: cluster has ps, expected {', '.join(_TYPES)}; parameter servers never end by "
            "themselves and keep no worker in step, so make every machine a worker"
        )
    unknown = sorted(set(value) - set(_TYPES))
    if unknown:
        raise _error(f"has {', '.join(unknown)} in its cluster", f"{', '.join(_TYPES)}")
    jobs = {job: _read_addresses(job, value.get(job, [])) for job in _TYPES}
    for job in ("chief", "evaluator"):
        if len(jobs[job]) > 1:
            raise _error(f"has {len(jobs[job])} tasks of type {job}", "one at most")
    if not jobs["chief"] + jobs["worker"]:
        raise _error("has no worker in its cluster", "one at least")
    return jobs


def _read_addresses(job, addresses):
    if not isinstance(addresses, list):
        raise _error(f"has {addresses!r} as {job}", "a list of HOST:PORT")
    for address in addresses:
        host, _, port = str(address).rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise _error(f"has the {job} {address!r}", "HOST:PORT with a port of 1 to 65535")
    return addresses


def _find_task(jobs, task):
    if not isinstance(task, Mapping) or not isinstance(task.get("index", 0), int):
        raise _error(f"has the task {task!r}", 'one like {"type": "worker", "index": 0}')
    workers = tuple(jobs["chief"] + jobs["worker"])
    if len(set(workers)) < len(workers):
        raise _error(f"has the workers {', '.join(workers)}", "another address for each")
    task_type, index = task.get("type"), task.get("index", 0)
    if task_type not in _TYPES:
        raise _error(f"has a task of type {task_type!r}", f"one of {', '.join(_TYPES)}")
    # An evaluator need not be listed: Kubeflow leaves it out.
    count = max(len(jobs[task_type]), int(task_type == "evaluator"))
    if not 0 <= index < count:
        raise _error(f"has the task {task_type} {index}", f"an index below {count}, as the cluster lists")
    rank = None if task_type == "evaluator" else index + (len(jobs["chief"]) if task_type == "worker" else 0)
    return Cluster(workers, (jobs["evaluator"] or [None])[0], rank)


def _error(what, expected):
    return errors.UserError(f"{VARIABLE}: {what}, expected {expected}; set it anew for each process")
