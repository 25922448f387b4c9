"""The demo's directory: of one size, and for one demo at a time."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import IO

from tfrecord_builder import errors, files

SIZE_FILE = "size.txt"


@contextlib.contextmanager
def claim(directory: pathlib.Path, size: str) -> Iterator[int]:
    """Makes the directory if need be, notes the size in it, and holds it against other demos.

    Yields:
      The file descriptor of the lock; a program that inherits it holds the directory as long as it lives.

    Raises:
      errors.UserError: the directory cannot be written to, another demo is running in it, it holds a demo of
        another size, or something else.
    """
    with _open(directory) as file:
        _lock(file, directory)
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


def _open(directory: pathlib.Path) -> IO[str]:
    path = directory / SIZE_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not path.exists() and any(directory.iterdir()):
            raise errors.UserError(
                f"--output_dir: {directory} holds files and no {path.name}, expected a demo or a "
                "new directory; choose another."
            )
        return open(path, "a+", encoding="utf-8")
    except OSError as error:
        raise errors.UserError(
            f"--output_dir: {directory} cannot be made or written to ({error.strerror}), "
            "expected a directory for the demo; choose another."
        ) from None


def _lock(file: IO[str], directory: pathlib.Path) -> None:
    if not files.take_lock(file.fileno(), file.name):
        raise errors.UserError(
            f"--output_dir: another demo, or a stage that outlived one, is running in {directory}, "
            "expected none; wait for it to end, or choose another."
        )
