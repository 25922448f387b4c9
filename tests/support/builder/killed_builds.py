"""Runs builds and kills them; a process that has imported TensorFlow forks a child for each build.

    python killed_builds.py CORPUS_DIR     reads lines with OUTPUT_DIR; prints PID and EXIT_CODE for each

A forked build starts within milliseconds, and all its work is done in the process that is killed. TensorFlow
is not used before the fork.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import paths


class Builds:
    """Runs builds of one corpus; can kill a build after some time."""

    def __init__(self, corpus_dir: str):
        command = [sys.executable, os.path.abspath(__file__), corpus_dir]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(command, cwd=paths.ROOT, env=environment, **pipes)

    def run(self, output_dir: str, kill_after: float | None = None) -> tuple[int, float]:
        """Runs a build; returns its exit code (-9 if it was killed) and its duration in seconds."""
        print(output_dir, file=self._process.stdin, flush=True)
        pid, began = int(self._process.stdout.readline()), time.monotonic()
        if kill_after is not None:
            timer = threading.Timer(kill_after, _kill, (pid,))
            timer.start()
        code = int(self._process.stdout.readline())
        if kill_after is not None:
            timer.cancel()
        return code, time.monotonic() - began

    def close(self) -> None:
        with self._process:  # closes the pipes, which ends the process
            pass


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # the build has already ended
        os.kill(pid, signal.SIGKILL)


def _serve(corpus_dir: str) -> None:
    import built_data  # imports TensorFlow, once for all builds

    from tfrecord_builder import errors

    for line in sys.stdin:
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            _, status = os.waitpid(pid, 0)
            print(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
            continue
        try:
            built_data.build(corpus_dir, line.rstrip("\n"), num_shards=6, max_rejected=0.5)
            os._exit(0)
        except errors.UserError as error:
            os._exit(3 if "contains a finished build" in str(error) else 1)
        except BaseException:
            os._exit(2)


if __name__ == "__main__":
    _serve(sys.argv[1])
