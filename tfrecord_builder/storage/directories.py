"""Writes local directories as a whole: under a temporary name, which is then changed to the final one."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator


@contextlib.contextmanager
def temporary(path: str) -> Iterator[str]:
    """Creates an empty directory, removing any leftover of a killed process, and removes it on exit.

    If the block renames the directory, nothing is removed.
    """
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def writing(path: str) -> Iterator[str]:
    """Yields an empty directory to write to, which replaces the directory `path` if the block succeeds.

    Only one process at a time may write to a path.
    """
    with temporary(f"{path}.incomplete") as incomplete:
        yield incomplete
        shutil.rmtree(path, ignore_errors=True)
        os.rename(incomplete, path)
