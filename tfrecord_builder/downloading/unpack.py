"""A .tar.gz to a directory, whatever the archive says: nothing is made outside of the directory.

Only files, folders and links within the directory are made, with the permissions of any new file. Why that
holds: every name is one of plain parts; its folder is a real one, never a link; a link leads up over real
folders first and down by names after, so each step of it stays inside.

Archives inside the archive (AISHELL-1 and aidatatang_200zh have one a speaker) are unpacked where they lie,
and removed.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import shutil
import sys
import tarfile
import zlib
from typing import BinaryIO

import tqdm

from tfrecord_builder import errors, files

_CHUNK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """What no corpus reaches: the largest, MAGICDATA, has 610,000 recordings of 87 GB."""

    num_entries: int = 3_000_000
    num_bytes: int = 1 << 39


LIMITS = Limits()


def unpack(archive: str, directory: str, limits: Limits = LIMITS) -> None:
    """Unpacks an archive and those inside it into a new directory.

    Raises:
      UserError: the archive is broken, or holds what is not for this directory or beyond the limits.
      OSError: the directory cannot be written.
    """
    os.makedirs(directory)
    tree = _Tree(os.path.realpath(directory), limits)
    with _progress_bar(archive, [archive]) as bar:
        _unpack_one(archive, tree, "", bar)
    inside = [path for path in files.find_files(directory, (".tar.gz",)) if not _is_hidden(path)]
    with _progress_bar("archives inside", inside) as bar:
        for path in inside:
            _unpack_one(path, tree, os.path.relpath(os.path.dirname(path), directory), bar)
            os.remove(path)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")  # as macOS's ._S0002.tar.gz, which is no archive


def _progress_bar(name: str, paths: list[str]) -> tqdm.tqdm:
    total = sum(map(os.path.getsize, paths))
    quiet = not sys.stderr.isatty() or not paths
    name = f"unpacking {os.path.basename(name)}"
    return tqdm.tqdm(desc=name, total=total, unit="B", unit_scale=True, disable=quiet)


def _unpack_one(path: str, tree: _Tree, below: str, bar: tqdm.tqdm) -> None:
    """Unpacks one archive; its names are relative to the folder `below` of the tree."""
    position = 0
    try:
        with open(path, "rb") as packed, gzip.open(packed) as stream:
            with tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK_BYTES) as tar:
                for member in tar:
                    tree.add(member, tar, below)
                    bar.update(packed.tell() - position)
                    position = packed.tell()
            while stream.read(_CHUNK_BYTES):  # to its end, where gzip keeps its own checksum
                pass
            bar.update(packed.tell() - position)
    except _Refused as refusal:
        raise errors.UserError(
            f"{path}: it holds {refusal}, expected files and folders of its own; "
            "do not use this archive, nothing of it was put in place."
        ) from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise errors.UserError(
            f"{path}: it cannot be unpacked ({error or type(error).__name__}), expected a whole .tar.gz; "
            "remove it and call again."
        ) from error


class _Refused(Exception):
    """What of an archive is not made."""


class _Tree:
    """The directory that grows, and how much was put there so far."""

    def __init__(self, root: str, limits: Limits):
        self._root = root
        self._limits = limits
        self._num_entries = 0
        self._num_bytes = 0
        self._folders = {""}  # real ones; a folder is never replaced

    def add(self, member: tarfile.TarInfo, tar: tarfile.TarFile, below: str) -> None:
        """Makes one entry of an archive."""
        self._count(1, member.size if member.isfile() else 0)
        name = self._place(member.name, below)
        if member.isdir():
            return self._make_folder(name, member.name)
        self._make_folder(os.path.dirname(name), member.name)
        path = self._clear(name, member.name)
        if member.isfile():
            with open(path, "wb") as file:
                shutil.copyfileobj(_contents(tar, member), file, _CHUNK_BYTES)
        elif member.issym():
            self._check_link(name, member)
            os.symlink(member.linkname, path)
        elif member.islnk():
            self._copy(self._place(member.linkname, below), path, member.name)
        else:
            raise _Refused(f"{_readable(member.name)}, which is a device")

    def _count(self, num_entries: int, num_bytes: int) -> None:
        self._num_entries += num_entries
        self._num_bytes += num_bytes
        if self._num_entries > self._limits.num_entries:
            raise _Refused(f"more than {self._limits.num_entries:,} entries")
        if self._num_bytes > self._limits.num_bytes:
            raise _Refused(f"more than {self._limits.num_bytes:,} bytes")

    def _place(self, name: str, below: str) -> str:
        """Gives the path in the tree that a name of an archive stands for."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts:
            raise _Refused(f"{_readable(name)}, which leads outside")
        return os.path.normpath(os.path.join(below, *parts)) if parts else os.path.normpath(below or ".")

    def _make_folder(self, folder: str, name: str) -> None:
        if folder in self._folders or folder == ".":
            return
        path = os.path.join(self._root, folder)
        if os.path.realpath(path) != path:
            raise _Refused(f"{_readable(name)}, which leads through a link")
        try:
            os.makedirs(path, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _Refused(f"{_readable(name)}, where a file lies already") from None
        self._folders.add(folder)

    def _clear(self, name: str, written: str) -> str:
        """Removes an earlier entry of the name, so that nothing is written through a link."""
        path = os.path.join(self._root, name)
        if os.path.isdir(path) and not os.path.islink(path):
            raise _Refused(f"{_readable(written)}, where a folder lies already")
        if os.path.lexists(path):
            os.remove(path)
        return path

    def _check_link(self, name: str, member: tarfile.TarInfo) -> None:
        parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
        num_up = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
        leads_out = num_up > name.count("/") or ".." in parts[num_up:]
        if member.linkname.startswith("/") or leads_out:
            raise _Refused(f"{_readable(member.name)}, a link that leads outside")

    def _copy(self, source: str, path: str, written: str) -> None:
        """Makes a hard link as a copy: not every file system has such links."""
        source = os.path.join(self._root, source)
        if os.path.realpath(source) != source or not os.path.isfile(source):
            raise _Refused(f"{_readable(written)}, a link to no file of its own")
        self._count(0, os.path.getsize(source))
        shutil.copyfile(source, path)


def _contents(tar: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    contents = tar.extractfile(member)
    assert contents is not None, "a file has contents"
    return contents


def _readable(name: str) -> str:
    return repr(os.fsencode(name).decode("utf-8", "backslashreplace"))
