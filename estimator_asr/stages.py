"""A long job as a row of programs: each runs in a process of its own and leaves a stamp when it is done.

A stamp is <directory>/<name>.json: {"command": ..., "seconds": ...}. It counts for the same command line
only.
"""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
from typing import NamedTuple, Optional

from tfrecord_builder import errors


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
    """Return how long the stage took when it ran to its end; None if it has not."""
    try:
        stamp = json.loads(_stamp(stage, directory).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return stamp["seconds"] if stamp["command"] == stage.command else None


def run(stage: Stage, directory: pathlib.Path) -> float:
    """Run the stage, stamp it, and return the seconds it took.

    Its standard error comes through, so a progress bar shows. When this process is interrupted or ended, the
    program is asked to end too and waited for: a training saves a checkpoint.

    Raises:
      errors.UserError: the program failed; its own message stands above.
    """
    started = time.monotonic()
    output = open(f"{stage.output}.tmp", "wb") if stage.output else None
    # A session of its own: Ctrl-C reaches this process alone, which then ends the program in good order.
    with subprocess.Popen(
        [sys.executable, "-m", stage.module, *stage.arguments], stdout=output, start_new_session=True
    ) as process:
        try:
            exit_code = process.wait()
        except BaseException:
            process.terminate()
            raise
        finally:
            process.wait()
    if exit_code != 0:
        raise errors.UserError(
            f"{stage.command}: exit code is {exit_code}, expected 0; see its message above, "
            "then call this program again: it goes on from here."
        )
    if output:
        output.close()
        os.replace(output.name, stage.output)
    return _write_stamp(stage, directory, time.monotonic() - started)


def _write_stamp(stage: Stage, directory: pathlib.Path, seconds: float) -> float:
    """Returns the seconds as stamped, so that a later call shows the same."""
    seconds = round(seconds, 1)
    directory.mkdir(parents=True, exist_ok=True)
    path = _stamp(stage, directory)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"command": stage.command, "seconds": seconds}), encoding="utf-8")
    os.replace(temporary, path)
    return seconds


def _stamp(stage: Stage, directory: pathlib.Path) -> pathlib.Path:
    return directory / f"{stage.name}.json"
