"""Writes a local directory under a temporary name and renames it once it is complete."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator


@contextlib.contextmanager
def temporary(path: str) -> Iterator[str]:
    """Creates an empty directory, replacing any leftover from a killed process, and removes it on exit.

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

    Only one process at a time may write to a path. If the process is killed while it renames the
    directories, the old directory is left as `path`.replaced.
    """
    replaced = f"{path}.replaced"
    with temporary(f"{path}.incomplete") as incomplete:
        yield incomplete
        if os.path.isdir(path):
            shutil.rmtree(replaced, ignore_errors=True)
            os.rename(path, replaced)
        os.rename(incomplete, path)
        shutil.rmtree(replaced, ignore_errors=True)
