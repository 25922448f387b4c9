"""A long job as a row of programs: each runs in a process of its own and leaves a stamp when it is done.

A stamp is <directory>/<name>.json: {"command": ..., "seconds": ...}; <name>.part.json is that of a stage that
was ended or failed, so that its seconds are not lost. Both count for the same command line only.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple, Optional

from tfrecord_builder import errors, files


class Stage(NamedTuple):
    """One program to run.

    Attributes:
      name: of its stamp.
      title: for people.
      module: the program.
      arguments: its command line.
      output: file that takes what it prints; None lets it through.
    """

    name: str
    title: str
    module: str
    arguments: tuple[str, ...]
    output: Optional[pathlib.Path] = None

    @property
    def command(self) -> str:
        """The command line as a person would type it."""
        redirection = f" > {shlex.quote(str(self.output))}" if self.output else ""
        return shlex.join(["python", "-m", self.module, *self.arguments]) + redirection


def seconds_of_finished(stage: Stage, directory: pathlib.Path) -> Optional[float]:
    """Returns how long the stage took when it ran to its end; None if it has not."""
    return _read_stamp(stage, _stamp(stage, directory))


def run(stage: Stage, directory: pathlib.Path, keep_open: Sequence[int] = ()) -> float:
    """Runs the stage, stamps it, and returns the seconds it took, those of earlier attempts included.

    Its standard error comes through, so a progress bar shows. When this process is interrupted or ended by an
    exception, the program is asked to end too and waited for: a training saves a checkpoint.

    Args:
      stage: the program.
      directory: of the stamps.
      keep_open: file descriptors that the program inherits: a lock of this process lasts as long as either.

    Raises:
      errors.UserError: the program failed; its own message stands above.
    """
    part = _stamp(stage, directory, ".part.json")
    earlier, started = _read_stamp(stage, part) or 0.0, time.monotonic()
    try:
        with _open_output(stage) as output:
            _check(stage, _execute(stage, output, keep_open))
    except BaseException:
        _write_stamp(stage, part, earlier + time.monotonic() - started)
        raise
    seconds = _write_stamp(stage, _stamp(stage, directory), earlier + time.monotonic() - started)
    part.unlink(missing_ok=True)
    return seconds


def _execute(stage: Stage, output: Optional[IO[bytes]], keep_open: Sequence[int]) -> int:
    """Returns the exit code."""
    # A session of its own: Ctrl-C reaches this process alone, which then ends the program in good order.
    with subprocess.Popen(
        [sys.executable, "-m", stage.module, *stage.arguments],
        stdout=output,
        start_new_session=True,
        pass_fds=keep_open,
    ) as process:
        try:
            return process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # it ended at the same moment
                os.killpg(process.pid, signal.SIGTERM)  # with its workers
            raise
        finally:
            process.wait()


def _check(stage: Stage, exit_code: int) -> None:
    if exit_code:
        raise errors.UserError(
            f"{stage.command}: {_describe_failure(exit_code)}, "
            "then call this program again: it goes on from here."
        )


def _describe_failure(exit_code: int) -> str:
    if exit_code > 0:
        return f"exit code is {exit_code}, expected 0; see its message above"
    number = -exit_code
    hint = "the machine may be out of memory: free some" if number == signal.SIGKILL else "see above for why"
    return f"was killed by signal {number} ({signal.strsignal(number)}), expected exit code 0; {hint}"


@contextlib.contextmanager
def _open_output(stage: Stage) -> Iterator[Optional[IO[bytes]]]:
    """Yields the file for what the program prints; it gets its name only if nothing is raised meanwhile."""
    if stage.output is None:
        yield None
        return
    with files.writing(str(stage.output)) as temporary, open(temporary, "wb") as file:
        yield file


def _read_stamp(stage: Stage, path: pathlib.Path) -> Optional[float]:
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return stamp["seconds"] if stamp["command"] == stage.command else None


def _write_stamp(stage: Stage, path: pathlib.Path, seconds: float) -> float:
    """Returns the seconds as stamped, so that a later call shows the same."""
    seconds = round(seconds, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(str(path), json.dumps({"command": stage.command, "seconds": seconds}))
    return seconds


def _stamp(stage: Stage, directory: pathlib.Path, suffix: str = ".json") -> pathlib.Path:
    return directory / f"{stage.name}{suffix}"
