"""Clusters with a scheduler and workers on this machine, which end with the test that started them."""

from __future__ import annotations

import contextlib
import importlib.util
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
import pytest

ENVIRONMENT = {  # of the clusters and of programs that the tests start
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # Java starts in half the time
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": paths.PYTHONPATH,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # with Ray's default, 15, all other processes would go first
    "SPARK_LOCAL_IP": "127.0.0.1",
}


class Cluster:
    """Processes of a cluster; each has its own session, so that its child processes can be found."""

    def __init__(self, runner: str, directory: pathlib.Path):
        self.runner, self._directory = runner, directory
        self.processes: list[subprocess.Popen] = []

    def start(self, command: list[str], ready: str, **environment: str) -> None:
        """Starts a process and waits until its log contains `ready`."""
        environment = {**os.environ, **ENVIRONMENT, **environment}
        options = dict(stderr=subprocess.STDOUT, cwd=self._directory, env=environment, start_new_session=True)
        path, deadline = self._directory / f"{len(self.processes)}.log", time.monotonic() + 60
        with open(path, "wb") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, **options))
        while ready not in path.read_text():
            assert self.processes[-1].poll() is None and time.monotonic() < deadline, path.read_text()
            time.sleep(0.1)

    def kill(self, process: subprocess.Popen) -> None:
        """Kills a process of the cluster and its child processes with SIGKILL."""
        command = ["ps", "-o", "pid=", "-s", str(process.pid)]
        for pid in subprocess.run(command, capture_output=True, text=True).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        process.wait()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_) -> None:
        for process in self.processes:
            self.kill(process)


class Spark(Cluster):
    """A standalone Spark cluster."""

    def __init__(self, directory: pathlib.Path):
        super().__init__(f"spark://127.0.0.1:{_free_port()}", directory)

    def start_scheduler(self) -> None:
        port = self.runner.rpartition(":")[2]
        self._start("master.Master", "New state: ALIVE", [f"--port={port}"])

    def start_worker(self, **environment: str) -> None:
        options = ["--cores=1", "--memory=1g", f"--work-dir={self._directory}/work", self.runner]
        self._start("worker.Worker", "Successfully registered", options, **environment)

    def _start(self, role: str, ready: str, options: list[str], **environment: str) -> None:
        import pyspark

        program = str(pathlib.Path(pyspark.__file__).parent / "bin" / "spark-class")
        usual = ["--host=127.0.0.1", "--webui-port=0"]
        usual = [part for option in (*usual, *options) for part in option.split("=")]
        self.start([program, f"org.apache.spark.deploy.{role}", *usual], ready, **environment)


class Ray(Cluster):
    """A Ray cluster whose head node runs no units."""

    def __init__(self, directory: pathlib.Path):
        super().__init__(f"ray://127.0.0.1:{_free_port()}", directory)
        self._port = _free_port()

    def start_scheduler(self) -> None:
        client = self.runner.rpartition(":")[2]
        options = [f"--port={self._port}", f"--ray-client-server-port={client}", "--include-dashboard=false"]
        self._start("--head", "--num-cpus=0", *options)

    def start_worker(self, **environment: str) -> None:
        self._start(f"--address=127.0.0.1:{self._port}", "--num-cpus=1", **environment)

    def _start(self, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        self.start([*command, *options], "will now block", **environment)


@contextlib.contextmanager
def start(name: str, directory: pathlib.Path) -> Iterator[Spark | Ray]:
    """Starts the scheduler of Spark or Ray; skips the test if the engine is not installed."""
    create, package = {"spark": (Spark, "pyspark"), "ray": (Ray, "ray")}[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if name == "spark" and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Spark needs Java 17, and no java is found")
    with create(directory) as cluster:
        cluster.start_scheduler()
        yield cluster


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
