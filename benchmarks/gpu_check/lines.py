"""Lines of the GPU check: their results, the table, and the lines that passed in an earlier run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder import errors
from tfrecord_builder.storage import files

PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"
_FILE = "passed.json"


class Line(NamedTuple):
    """A line of the table."""

    name: str
    result: str  # PASS, FAIL and the reason, NOT_RUN, or a missing requirement
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
            errors.UserError: the directory contains files that do not belong to a check.
        """
        self.directory = os.path.abspath(directory)  # child processes have another working directory
        self._path, self._lines = os.path.join(self.directory, _FILE), {}
        os.makedirs(self.directory, exist_ok=True)
        if os.listdir(self.directory) and not os.path.exists(self._path):
            raise errors.UserError(
                f"--work_dir: {directory} contains files of something else; pass a new or empty directory"
            )

    def read(self, machine: str) -> None:
        """Reads the lines; deletes them, data and models if machine or TensorFlow version differ."""
        found, self._machine = {}, machine
        if os.path.exists(self._path):
            found = json.loads(files.read_text(self._path))
        if found.get("machine") == machine:
            self._lines = {line[0]: Line(*line) for line in found["lines"]}
        else:
            self.delete()
            self._write()

    def find(self, name: str) -> Optional[Line]:
        """Returns the line with that name if it has passed."""
        return self._lines.get(name)

    def note(self, line: Line) -> Line:
        """Returns the line; saves the line if it has passed."""
        if line.result == PASS:
            self._lines[line.name] = line
            self._write()
        return line

    def _write(self):
        text = json.dumps({"machine": self._machine, "lines": list(self._lines.values())})
        files.write_text(self._path, text)

    def delete(self) -> None:
        """Deletes the directory's contents; the file that marks it as a check's is deleted last."""
        for name in sorted(os.listdir(self.directory), key=_FILE.__eq__):
            path = os.path.join(self.directory, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
