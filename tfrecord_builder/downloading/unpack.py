"""Unpacking of .tar.gz archives whose checksum was verified, by the "data" filter of tarfile (PEP 706).

The filter refuses names and links that lead outside the directory, and devices. It exists from Python 3.9.17,
3.10.12 and 3.11.4 on; on older patch releases nothing is downloaded or unpacked.
"""

from __future__ import annotations

import os
import platform
import tarfile
import zlib

import tqdm

from tfrecord_builder import errors
from tfrecord_builder.storage import files

_CHUNK_BYTES = 1 << 20


def check_python() -> None:
    """Raises UserError if this Python cannot unpack safely."""
    if not hasattr(tarfile, "data_filter"):
        raise errors.UserError(
            f"Python: version is {platform.python_version()}, expected 3.9.17, 3.10.12, 3.11.4 or a later "
            'patch release, whose tarfile has filter="data"; update Python, or unpack the archive yourself.'
        )


def unpack(archive: str, directory: str) -> None:
    """Unpacks an archive into a new directory.

    Archives inside it (AISHELL-1 and aidatatang_200zh have one per speaker) are unpacked where they are, and
    removed.

    Raises:
        UserError: the archive is damaged, or has an entry that the filter refuses.
        OSError: the directory cannot be written.
    """
    os.makedirs(directory)
    with open(archive, "rb") as plain:
        size, name = os.path.getsize(archive), os.path.basename(archive)
        with tqdm.tqdm.wrapattr(plain, "read", size, desc=f"unpacking {name}", disable=None) as file:
            _extract(file, archive, directory)
    inner = [path for path in files.find_files(directory, (".tar.gz",)) if not _is_hidden(path)]
    for path in tqdm.tqdm(inner, "unpacking archives inside", disable=None if inner else True):
        with open(path, "rb") as file:
            _extract(file, path, os.path.dirname(path))
        os.remove(path)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")  # such as ._S0002.tar.gz of macOS, which is not an archive


def _extract(file, path: str, directory: str) -> None:
    try:
        with tarfile.open(fileobj=file, mode="r|gz", bufsize=_CHUNK_BYTES) as tar:
            tar.extractall(directory, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise errors.UserError(
            f"{path}: it cannot be unpacked ({error or type(error).__name__}), expected a .tar.gz with files "
            "and folders of its own; remove it and run the command again."
        ) from error
