"""Stages of the demo: each runs a program in its own process, and writes a stamp when the program succeeds.

A stamp is <directory>/<name>.json: {"command": ..., "seconds": ...}; it is valid only for the same command.
The demo's directory is locked, so that only one demo at a time runs in it.
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
    """Creates and locks the directory for a demo with the given size; yields the lock's file descriptor.

    A program that inherits the descriptor holds the lock until the program ends.

    Raises errors.UserError if another demo is running in the directory, or the directory contains a demo of
    another size, or files that do not belong to a demo.
    """
    path = directory / "size.txt"
    directory.mkdir(parents=True, exist_ok=True)
    if not path.exists() and any(directory.iterdir()):
        raise errors.UserError(
            f"--output_dir: {directory} contains files but no {path.name}, so it does not belong to a "
            "demo; choose another directory."
        )
    busy = (
        f"--output_dir: another demo, or a stage of a killed demo, is still running in {directory}; "
        "wait until it ends, or choose another directory."
    )
    with locks.exclusive(str(path), busy) as lock:
        former_size = path.read_text(encoding="utf-8")
        if not former_size:
            path.write_text(size, encoding="utf-8")
        elif former_size != size:
            raise errors.UserError(
                f"--size is {size}, but {path} says {former_size}; "
                f"remove {directory} or choose another --output_dir."
            )
        yield lock


def check_order(stages: Sequence[Stage], stamps: pathlib.Path) -> None:
    """Raises errors.UserError if a stage is finished although an earlier stage is not."""
    is_finished = [seconds_of_finished(stage, stamps) is not None for stage in stages]
    if sorted(is_finished, reverse=True) != is_finished:
        missing = stages[is_finished.index(False)].title
        raise errors.UserError(
            f"--output_dir: in {stamps.parent}, the stage {missing!r} is not finished, but later stages are. "
            "The demo was started by another version or from another working directory, or files were "
            "removed. Remove the directory, or choose another directory."
        )


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of the demo: a program to run."""

    name: str  # also the stem of the stamp's file name
    title: str
    module: str
    arguments: tuple[str, ...]
    output: Optional[pathlib.Path] = None  # file for standard output; if None, the output is passed through

    @property
    def command(self) -> str:
        """The command line as a person would type it."""
        redirection = f" > {shlex.quote(str(self.output))}" if self.output else ""
        return shlex.join(["python", "-m", self.module, *self.arguments]) + redirection


def finish(stage: Stage, number: str, stamps: pathlib.Path, lock: int) -> float:
    """Prints a stage's number and title and, if necessary, runs the stage; returns the seconds it took."""
    seconds = seconds_of_finished(stage, stamps)
    if seconds is not None:
        print(f"{number} {stage.title}: finished earlier, in {seconds:.0f} s", flush=True)
        return seconds
    print(f"\n{number} {stage.title}\n$ {stage.command}", flush=True)
    return run(stage, stamps, keep_open=(lock,))


def seconds_of_finished(stage: Stage, stamps: pathlib.Path) -> Optional[float]:
    """Returns the seconds that a stage took, or None if the stage is not finished."""
    try:
        stamp = json.loads((stamps / f"{stage.name}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return stamp["seconds"] if stamp["command"] == stage.command else None


def run(stage: Stage, stamps: pathlib.Path, keep_open: Sequence[int] = ()) -> float:
    """Runs a stage, writes its stamp, and returns the seconds that it took.

    Standard error is passed through, so that progress bars are visible. Before an exception or a signal ends
    this process, it sends SIGTERM to the program and waits for the program to end, so that training can save
    a checkpoint. The program inherits the file descriptors in `keep_open`.

    Raises errors.UserError if the program failed or was killed.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        output = None
        if stage.output:  # the file is created only if the stage succeeds
            output = stack.enter_context(open(stack.enter_context(files.writing(str(stage.output))), "wb"))
        exit_code = _execute(stage, output, keep_open)
        if exit_code:
            reason = f"{stage.command}: {_describe_failure(exit_code)}"
            raise errors.UserError(f"{reason}. Then run the demo again; it continues from here.")
    seconds = round(time.monotonic() - started, 1)
    stamps.mkdir(parents=True, exist_ok=True)
    stamp = json.dumps({"command": stage.command, "seconds": seconds})
    files.write_text(str(stamps / f"{stage.name}.json"), stamp)
    return seconds


def _execute(stage, output, keep_open):
    """Runs a stage's program and returns its exit code."""
    command = [sys.executable, "-m", stage.module, *stage.arguments]
    # The program has its own session, so Ctrl-C interrupts only this process, which then sends SIGTERM.
    options = {"stdout": output, "start_new_session": True, "pass_fds": keep_open}
    with subprocess.Popen(command, **options) as process:
        try:
            return process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # the program has already ended
                os.killpg(process.pid, signal.SIGTERM)  # also stops the program's workers
            raise
        finally:
            process.wait()


def _describe_failure(exit_code: int) -> str:
    if exit_code > 0:
        return f"exit code is {exit_code}; see the message above and fix the problem"
    killed = f"killed by signal {-exit_code} ({signal.strsignal(-exit_code)})"
    if exit_code == -signal.SIGKILL:
        return f"{killed}; free memory if the machine ran out of memory"
    return f"{killed}; see above for the reason"
