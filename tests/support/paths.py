"""Directories and files of the repository, and the programs in tests/support."""

import functools
import os
import pathlib
import subprocess

SUPPORT = pathlib.Path(__file__).resolve().parent
ROOT = SUPPORT.parent.parent
_FOLDERS = sorted(path for path in SUPPORT.iterdir() if path.is_dir())
PYTHONPATH = os.pathsep.join(map(str, (ROOT, SUPPORT, *_FOLDERS)))  # for the programs in tests/support


def find_files(*patterns: str) -> list[pathlib.Path]:
    """Returns the tracked files that match one of the patterns, such as "flags/*/*.flags", sorted.

    A work tree may also contain a demo, data, notebooks or a build. Without git (in an unpacked archive or an
    image), all matching files are returned.
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
    (path,) = SUPPORT.glob(f"*/{name}")
    return path
