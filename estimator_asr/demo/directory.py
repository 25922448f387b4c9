"""Directory of a demo: of one size, and locked for one demo at a time."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from tfrecord_builder import errors, files

SIZE_FILE = "size.txt"


@contextlib.contextmanager
def claim(directory: pathlib.Path, size: str) -> Iterator[int]:
    """Makes the directory if necessary, writes the size to it, and locks it against other demos.

    Yields:
        The file descriptor of the lock; a program that inherits it holds the lock as long as it lives.

    Raises:
        UserError: another demo is running in the directory, or it holds a demo of another size or something
            else.
    """
    path = directory / SIZE_FILE
    directory.mkdir(parents=True, exist_ok=True)
    if not path.exists() and any(directory.iterdir()):
        raise errors.UserError(
            f"--output_dir: {directory} holds files and no {path.name}, expected a demo or a new directory; "
            "choose another one."
        )
    with open(path, "a+", encoding="utf-8") as file:
        if not files.take_lock(file.fileno(), file.name):
            raise errors.UserError(
                f"--output_dir: another demo, or a stage that outlived one, is running in {directory}; "
                "wait until it ends, or choose another directory."
            )
        file.seek(0)
        found = file.read()
        if not found:
            file.write(size)
            file.flush()
        elif found != size:
            raise errors.UserError(
                f"--size is {size}, expected {found} as in {file.name}; "
                f"remove {directory} or choose another --output_dir."
            )
        yield file.fileno()
