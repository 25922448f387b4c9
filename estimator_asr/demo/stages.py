"""Stages of the demo: each runs a program in a process of its own and writes a stamp when it is finished.

A stamp is <directory>/<name>.json: {"command": ..., "seconds": ...}; it counts for the same command only. The
directory of a demo is locked for one demo at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.storage import files, locks


@contextlib.contextmanager
def claim(directory: pathlib.Path, size: str) -> Iterator[int]:
    """Makes the directory of a demo of one size, and locks it; yields the file descriptor of the lock.

    A program that inherits the descriptor holds the lock as long as it lives.

    Raises:
        errors.UserError: another demo is running in the directory, or it holds a demo of another size or
            something else.
    """
    path = directory / "size.txt"
    directory.mkdir(parents=True, exist_ok=True)
    if not path.exists() and any(directory.iterdir()):
        raise errors.UserError(
            f"--output_dir: {directory} contains files but no {path.name}, expected a demo or a new "
            "directory; choose another one."
        )
    busy = (
        f"--output_dir: another demo, or a stage of one that was killed, is running in {directory}; "
        "wait until it ends, or choose another directory."
    )
    with locks.exclusive(str(path), busy) as lock:
        former_size = path.read_text(encoding="utf-8")
        if not former_size:
            path.write_text(size, encoding="utf-8")
        elif former_size != size:
            raise errors.UserError(
                f"--size is {size}, expected {former_size} as in {path}; "
                f"remove {directory} or choose another --output_dir."
            )
        yield lock


def check_order(stages: Sequence[Stage], stamps: pathlib.Path) -> None:
    """Raises errors.UserError if a stage is finished and one before it is not: what it read was another's."""
    is_finished = [seconds_of_finished(stage, stamps) is not None for stage in stages]
    if sorted(is_finished, reverse=True) != is_finished:
        missing = stages[is_finished.index(False)].title
        raise errors.UserError(
            f"--output_dir: {stamps.parent} has later stages than {missing!r} but not this one, expected all "
            "before a finished one: it was begun by another version or from another working directory, or "
            "parts were removed; remove it all, or choose another directory."
        )


@dataclasses.dataclass(frozen=True)
class Stage:
    """A program to run."""

    name: str  # of its stamp
    title: str
    module: str
    arguments: tuple[str, ...]
    output: Optional[pathlib.Path] = None  # file for its standard output; None passes it through

    @property
    def command(self) -> str:
        """The command line as a person would type it."""
        redirection = f" > {shlex.quote(str(self.output))}" if self.output else ""
        return shlex.join(["python", "-m", self.module, *self.arguments]) + redirection


def finish(stage: Stage, number: str, stamps: pathlib.Path, lock: int) -> float:
    """Runs a stage unless it is finished, and prints its number and title; returns its seconds."""
    seconds = seconds_of_finished(stage, stamps)
    if seconds is not None:
        print(f"{number} {stage.title}: finished before, in {seconds:.0f} s", flush=True)
        return seconds
    print(f"\n{number} {stage.title}\n$ {stage.command}", flush=True)
    return run(stage, stamps, keep_open=(lock,))


def seconds_of_finished(stage: Stage, stamps: pathlib.Path) -> Optional[float]:
    """Returns how long a finished stage took; None if it is not finished."""
    try:
        stamp = json.loads((stamps / f"{stage.name}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return stamp["seconds"] if stamp["command"] == stage.command else None


def run(stage: Stage, stamps: pathlib.Path, keep_open: Sequence[int] = ()) -> float:
    """Runs a stage, writes its stamp, and returns the seconds that it took.

    Standard error is passed through, so that a progress bar shows. When this process is interrupted or ended
    by an exception, the program receives SIGTERM and is waited for: a training saves a checkpoint. It
    inherits the file descriptors of keep_open.

    Raises:
        errors.UserError: the program failed; its own message stands above.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        output = None
        if stage.output:  # appears only if nothing is raised
            output = stack.enter_context(open(stack.enter_context(files.writing(str(stage.output))), "wb"))
        exit_code = _execute(stage, output, keep_open)
        if exit_code:
            reason = f"{stage.command}: {_describe_failure(exit_code)}"
            raise errors.UserError(f"{reason}; then run the demo again: it continues from here.")
    seconds = round(time.monotonic() - started, 1)
    stamps.mkdir(parents=True, exist_ok=True)
    stamp = json.dumps({"command": stage.command, "seconds": seconds})
    files.write_text(str(stamps / f"{stage.name}.json"), stamp)
    return seconds


def _execute(stage, output, keep_open):
    """Returns the exit code."""
    command = [sys.executable, "-m", stage.module, *stage.arguments]
    # A session of its own: Ctrl-C reaches this process alone, which then ends the program with SIGTERM.
    options = {"stdout": output, "start_new_session": True, "pass_fds": keep_open}
    with subprocess.Popen(command, **options) as process:
        try:
            return process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # it ended at the same moment
                os.killpg(process.pid, signal.SIGTERM)  # with its workers
            raise
        finally:
            process.wait()


def _describe_failure(exit_code: int) -> str:
    if exit_code > 0:
        return f"exit code is {exit_code}; see its message above"
    killed = f"killed by signal {-exit_code} ({signal.strsignal(-exit_code)})"
    is_memory = exit_code == -signal.SIGKILL
    return f"{killed}; {'free memory if the machine ran out of it' if is_memory else 'see above for why'}"
