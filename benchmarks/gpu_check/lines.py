"""Lines of the GPU check: what each one says, the table of all, and those that have passed before."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tfrecord_builder import errors

PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"
_FILE = "passed.jsonl"


class Line(NamedTuple):
    """A line of the table."""

    name: str
    result: str  # PASS, FAIL and the reason, NOT_RUN, or what it needs
    seconds: float = 0.0
    step_ms: str = ""
    memory: str = ""
    losses: str = ""
    difference: str = ""
    details: Sequence[str] = ()


def tabulate(lines: Iterable[Line]) -> Iterator[str]:
    """Yields a table in Markdown."""
    titles = ("check", "result", "s", "ms per step", "memory", "first and last loss", "difference")
    rows = [(*line[:2], f"{line.seconds:.0f}", *line[3:7]) for line in lines]
    widths = [max(map(len, column)) for column in zip(titles, *rows)]
    for row in (titles, ["-" * width for width in widths], *rows):
        yield f"| {' | '.join(f'{cell:{width}}' for cell, width in zip(row, widths))} |"


class Passed:
    """The lines that passed, kept in a directory until the check is complete."""

    def __init__(self, directory: str):
        """Makes the directory.

        Raises:
            errors.UserError: the directory has files, and they are not those of a check.
        """
        os.makedirs(directory, exist_ok=True)
        self.directory, self._path = directory, os.path.join(directory, _FILE)
        if os.listdir(directory) and not os.path.exists(self._path):
            raise errors.UserError(
                f"--work_dir: {directory} has files of something else; name a directory that is new or empty"
            )
        open(self._path, "a").close()
        self._lines = {}

    def read(self, machine: str) -> None:
        """Reads the lines; forgets them, data and models if they are of another machine or TensorFlow."""
        with open(self._path, encoding="utf-8") as file:
            first, *others = [*map(json.loads, file)] or [None]
        if first == machine:
            self._lines = {line[0]: Line(*line) for line in others}
            return
        self.delete()
        os.makedirs(self.directory)
        self._write(machine)

    def run(self, name: str, check: Callable[[], Line]) -> Line:
        """Returns the line of that name if it has passed, otherwise that of the check."""
        line = self._lines.get(name) or check()
        if name not in self._lines and line.result == PASS:
            self._write(line)
        return line

    def _write(self, value):
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def delete(self) -> None:
        shutil.rmtree(self.directory)
