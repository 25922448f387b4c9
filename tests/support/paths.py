"""Directories and files of the repository, and the programs of the tests."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess

SUPPORT = pathlib.Path(__file__).resolve().parent
ROOT = SUPPORT.parent.parent
_FOLDERS = sorted(path for path in SUPPORT.iterdir() if path.is_dir())
PYTHONPATH = os.pathsep.join(map(str, (ROOT, SUPPORT, *_FOLDERS)))  # for the programs of this folder


def find_files(*patterns: str) -> list[pathlib.Path]:
    """Returns the files of the project that match a pattern such as "flags/*/*.flags", sorted.

    Git says which files those are, because a work tree may also hold a demo, data, notebooks or a build.
    Without git (in an unpacked archive or an image), every file that matches counts.
    """
    tracked = _list_tracked(ROOT)
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(path for path in found if not tracked or path in tracked)


@functools.lru_cache
def _list_tracked(root: pathlib.Path) -> frozenset[pathlib.Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True).stdout
    except OSError:
        return frozenset()
    return frozenset(root / name for name in listed.split("\0") if name)


def script(name: str) -> pathlib.Path:
    """Returns the path of a program in a folder of tests/support."""
    (path,) = SUPPORT.glob(f"*/{name}")
    return path
