"""Runs the server in a separate process, and measures its memory."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator

import numpy as np

from tfrecord_builder import errors

_SAMPLE_SECONDS = 0.5


class Memory:
    """The resident set of a process over time, in MB (10^6 bytes)."""

    def __init__(self):
        self.samples: list[tuple[float, float]] = []  # seconds, MB

    @property
    def first(self) -> float:
        return self.samples[0][1]

    @property
    def last(self) -> float:
        return self.samples[-1][1]

    def growth(self, requests_per_second: float) -> float:
        """Returns the MB per 1,000 requests in the second half of the time; the first half warms up."""
        half = self.samples[len(self.samples) // 2 :]
        if len(half) < 2 or not requests_per_second:
            return 0.0
        per_second = np.polyfit(*zip(*half), 1)[0]
        return float(1000 * per_second / requests_per_second)


class Server(contextlib.AbstractContextManager):
    """`estimator_asr.serve` on a free port of this machine, ready when constructed.

    Attributes:
        line: the line that the server printed when it was ready.
        address: host and port.

    Raises:
        errors.UserError: the server did not start; it has printed the reason.
    """

    def __init__(self, saved_model: str):
        command = [sys.executable, "-m", "estimator_asr.serve", f"--saved_model={saved_model}", "--port=0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.line = self._process.stdout.readline().strip()
        if not self.line:
            raise errors.UserError(
                f"{saved_model}: the server did not start (exit code {self._process.wait()}); see its "
                "message above"
            )
        url = urllib.parse.urlsplit(self.line.split()[0])
        self.address = (url.hostname, url.port)

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(60)

    @contextlib.contextmanager
    def watch_memory(self) -> Iterator[Memory]:
        """Yields a Memory, which is updated until the block ends."""
        memory, is_over = Memory(), threading.Event()

        def watch():
            while True:
                memory.samples.append((time.monotonic(), read_resident_mb(self._process.pid)))
                if is_over.wait(_SAMPLE_SECONDS):
                    return

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield memory
        finally:
            is_over.set()
            thread.join()


def read_resident_mb(pid: int) -> float:
    """Returns the resident set of a Linux process in MB (10^6 bytes)."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmRSS"].split()[0]) * 1024 / 1e6
