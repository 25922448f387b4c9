"""Directories of the repository, and the programs of the tests."""

from __future__ import annotations

import os
import pathlib

SUPPORT = pathlib.Path(__file__).resolve().parent
ROOT = SUPPORT.parent.parent
_FOLDERS = sorted(path for path in SUPPORT.iterdir() if path.is_dir())
PYTHONPATH = os.pathsep.join(map(str, (ROOT, SUPPORT, *_FOLDERS)))  # of the programs below


def script(name: str) -> pathlib.Path:
    """Returns the path of a program in a folder of tests/support."""
    (path,) = SUPPORT.glob(f"*/{name}")
    return path
