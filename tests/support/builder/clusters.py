"""Clusters of a scheduler and two workers on this machine, ended with their test."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import paths


class Cluster:
    """Processes of a cluster, each in a session of its own, so that all it starts can be found and ended."""

    def __init__(self, runner: str, directory: pathlib.Path):
        self.runner, self._directory = runner, directory
        self.processes: list[subprocess.Popen] = []

    def start(self, *command: str) -> None:
        log = open(self._directory / f"{len(self.processes)}.log", "wb")
        environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "PYSPARK_PYTHON": sys.executable}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "RAY_USAGE_STATS_ENABLED": "0"}
        options = dict(stdout=log, stderr=subprocess.STDOUT, cwd=self._directory, env=environment)
        self.processes.append(subprocess.Popen(command, start_new_session=True, **options))
        log.close()

    def kill(self, number: int) -> None:
        """Kills a process of the cluster (0: the scheduler) and all that it has started, with -9."""
        process = self.processes[number]
        listed = subprocess.check_output(["ps", "-o", "pid=", "-s", str(process.pid)], text=True)
        for pid in map(int, listed.split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for number, process in reversed(list(enumerate(self.processes))):
            if process.poll() is None:
                self.kill(number)


@contextlib.contextmanager
def spark(directory: pathlib.Path) -> Iterator[Cluster]:
    """Yields a standalone cluster of Spark."""
    import pyspark

    port, home = _free_port(), pathlib.Path(pyspark.__file__).parent
    with contextlib.closing(Cluster(f"spark://127.0.0.1:{port}", directory)) as cluster:
        command = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
        ports = ["--host", "127.0.0.1", "--webui-port", "0"]
        cluster.start(command[0], f"{command[1]}.master.Master", "--port", str(port), *ports)
        _wait_for(port)
        for _ in range(2):
            start_spark_worker(cluster, command)
        yield cluster


def start_spark_worker(cluster: Cluster, command: list[str]) -> None:
    options = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0"]
    cluster.start(command[0], f"{command[1]}.worker.Worker", cluster.runner, *options)


@contextlib.contextmanager
def ray(directory: pathlib.Path) -> Iterator[Cluster]:
    """Yields a cluster of Ray, whose head runs no units."""
    port, client = _free_port(), _free_port()
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    with contextlib.closing(Cluster(f"ray://127.0.0.1:{client}", directory)) as cluster:
        ports = [f"--port={port}", f"--ray-client-server-port={client}", "--include-dashboard=false"]
        cluster.start(*start, "--head", "--num-cpus=0", *ports)
        _wait_for(client)
        for _ in range(2):
            cluster.start(*start, f"--address=127.0.0.1:{port}", "--num-cpus=1")
        yield cluster


def has_java() -> bool:
    return bool(shutil.which("java") or os.environ.get("JAVA_HOME"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.2)
