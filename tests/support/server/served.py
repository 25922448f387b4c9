"""python -m estimator_asr.serve as a process, on a free port of 127.0.0.1."""

import os
import subprocess
import sys
import tempfile

import paths

UNREAD = "the language model lacks 3 of the 5 tokens of the acoustic model"  # a warning about the tiny export
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(paths.ROOT)}


class Served:
    """The running program, which is ready for requests; `line` is the first line that it printed."""

    def __init__(self, saved_model, *flags, program=("-m", "estimator_asr.serve")):
        command = [sys.executable, *program, f"--saved_model={saved_model}", "--port=0", *flags]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  a pipe that nobody reads would stop the program
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, env=ENVIRONMENT
        )
        self.line = self.process.stdout.readline()
        self.url = self.line.split()[0] if self.line else ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends the program if it is still running."""
        self.process.kill()
        self.process.wait(60)
        self.process.stdout.close()
        self._log.close()

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def stop(self, number):
        """Sends a signal; returns the exit code and standard error without the warning UNREAD."""
        self.process.send_signal(number)
        self.process.wait(60)
        lines = self.read_log().splitlines(keepends=True)
        return self.process.returncode, "".join(line for line in lines if UNREAD not in line)

    def read_log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode()
