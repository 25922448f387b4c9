"""One of the processes that a launcher starts: it never outlives the launcher, and its words are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

# Runs the command that follows in its own place, so that it ends (SIGKILL) with the launcher: 1 is
# PR_SET_PDEATHSIG of linux/prctl.h. Not by preexec_fn, which can hang where TensorFlow has its threads.
_DIE_WITH_LAUNCHER = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execvp(sys.argv[2], sys.argv[2:])"
)


class WorkerProcess:
    """A running process.

    Attributes:
        name: chief, worker-1 and so on, evaluator.
        log_path: where its output went; None: to the terminal.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log_path: str = ""):
        """Starts it.

        Args:
            name: for people.
            command: program and arguments.
            environment: all its variables.
            log_path: file that its output is appended to; "": it writes where this process does.
        """
        self.name = name
        self.log_path = log_path
        output = open(log_path, "ab") if log_path else None
        prefix = [sys.executable, "-S", "-c", _DIE_WITH_LAUNCHER, str(os.getpid())]
        self._process = subprocess.Popen(
            [*(prefix if sys.platform == "linux" else []), *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C comes to the launcher alone, which ends all in order
        )
        if output:
            output.close()

    @property
    def exit_code(self):
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        """Sends a signal if it still runs."""
        if self.exit_code is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Ends it and its children at once, and waits until it is gone."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def describe_end(self) -> str:
        """Returns how it ended, in words."""
        if self.exit_code < 0:
            return f"{self.name} was ended by {signal.Signals(-self.exit_code).name}"
        return f"{self.name} ended with exit code {self.exit_code}"

    def last_lines(self, count: int) -> list[str]:
        """Returns the end of its output; nothing if that went to the terminal."""
        if not self.log_path:
            return []
        with open(self.log_path, errors="replace") as file:
            return file.read().splitlines()[-count:]


class LineForwarder(threading.Thread):
    """Copies the new lines of a growing file to a stream, each behind a prefix, until it is stopped."""

    def __init__(self, path: str, prefix: str, stream):
        super().__init__(daemon=True)
        self._path, self._prefix, self._stream = path, prefix, stream
        self._is_stopped = threading.Event()
        self.start()

    def stop(self) -> None:
        """Copies what is left and ends."""
        self._is_stopped.set()
        self.join()

    def run(self):
        with open(self._path, "a+", errors="replace") as file:
            file.seek(0, os.SEEK_END)
            part = ""
            while True:
                is_last = self._is_stopped.wait(0.2)
                *lines, part = (part + file.read()).split("\n")
                for line in lines:
                    print(self._prefix + line, file=self._stream, flush=True)
                if is_last:
                    return
