"""Staging directory of a build: files are made in OUTPUT/.build, and moved up when all are whole.

So an interrupted build continues where it stopped, --overwrite keeps the old data until the new data is
whole, and files of others stay. dataset_info.json is moved last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.storage import files

STAGING = ".build"
_FINGERPRINT_FILE = "plan"
_PUBLISHED_FILE = "published"  # its name when all but dataset_info.json is in place
_REPLACED = "replaced"
_SCRATCH = "labels"
_NOT_PUBLISHED = {_FINGERPRINT_FILE, _REPLACED, _SCRATCH, dataset_info.INFO_FILE}


def is_complete(output_dir: str) -> bool:
    """Returns whether a finished build is there."""
    return files.exists(os.path.join(output_dir, dataset_info.INFO_FILE))


def start(output_dir: str, fingerprint: str, overwrite: bool) -> str:
    """Prepares the staging directory; shards of an interrupted build of the same fingerprint stay.

    Raises UserError if an interrupted build had another one, and overwrite is off.
    """
    staging = os.path.join(output_dir, STAGING)
    fingerprint_file = os.path.join(staging, _FINGERPRINT_FILE)
    if _read(fingerprint_file) not in (b"", fingerprint.encode()):
        if not overwrite:
            raise errors.UserError(
                f"{output_dir}: the interrupted build there had another corpus or other flags; "
                "repeat them to continue it, or pass --overwrite to start again."
            )
        _withdraw(output_dir, staging)
        files.remove_tree(staging)
    files.make_directory(staging)
    # A store has no empty directories.
    names = files.list_names(staging) if files.is_directory(staging) else []
    _remove(staging, [name for name in names if name.endswith(".incomplete")])
    files.write_text(fingerprint_file, fingerprint)
    return staging


def scratch_directory(output_dir: str) -> str:
    """Makes a directory for files that every worker sees, an interrupted build keeps and none publishes."""
    directory = os.path.join(output_dir, STAGING, _SCRATCH)
    files.make_directory(directory)
    return directory


def take_over(names: Iterable[str], workspace: str, staging: str) -> None:
    """Moves files of the workspace into the staging directory."""
    for name in names:
        if files.is_remote(staging):
            files.copy(os.path.join(workspace, name), os.path.join(staging, name))
        else:
            _move(name, workspace, staging)


def publish(output_dir: str, info: dataset_info.DatasetInfo) -> None:
    """Moves a finished build from the staging directory into place, and removes the shards it replaces."""
    staging = os.path.join(output_dir, STAGING)
    info.save(staging)
    replaced = os.path.join(staging, _REPLACED)
    if is_complete(output_dir):
        files.make_directory(replaced)
        _move(dataset_info.INFO_FILE, output_dir, replaced)
    old_files = _files_of(replaced) if is_complete(replaced) else set()
    names = sorted(set(files.list_names(staging)) - _NOT_PUBLISHED)
    new_files = [name for name in names if not name.endswith((".incomplete", ".tfrecord.json"))]
    for name in new_files:
        _move(name, staging, output_dir)
    _remove(output_dir, old_files.difference(new_files))
    files.move(os.path.join(staging, _FINGERPRINT_FILE), os.path.join(staging, _PUBLISHED_FILE))
    _finish(output_dir)


def failure_path(output_dir: str, name: str) -> str:
    """Returns where to leave a file of a failed build: not beside the data of a finished one."""
    staging = os.path.join(output_dir, STAGING)
    files.make_directory(staging)
    return os.path.join(staging if is_complete(output_dir) else output_dir, name)


def clear_leftovers(output_dir: str) -> None:
    """Finishes what a build that was killed had almost finished; the directory must be locked."""
    staging = os.path.join(output_dir, STAGING)
    if files.exists(os.path.join(staging, _PUBLISHED_FILE)):
        _finish(output_dir)
    elif is_complete(output_dir) and not files.is_remote(output_dir):
        with contextlib.suppress(OSError):  # it does not exist, or is not empty
            os.rmdir(staging)


def _finish(output_dir: str) -> None:
    """Moves dataset_info.json to the published files, then clears the staging directory.

    The file that says that all is published is removed last, so that this can be repeated.
    """
    staging = os.path.join(output_dir, STAGING)
    if is_complete(staging):
        _move(dataset_info.INFO_FILE, staging, output_dir)
    for name in set(files.list_names(staging)) - {_PUBLISHED_FILE}:
        path = os.path.join(staging, name)
        (files.remove_tree if files.is_directory(path) else files.remove)(path)
    files.remove_tree(staging)


def _withdraw(output_dir: str, staging: str) -> None:
    """Removes what another build had published in part, and what remains of the build that it replaced."""
    if is_complete(output_dir):
        return
    for directory in (staging, os.path.join(staging, _REPLACED)):
        if is_complete(directory):
            _remove(output_dir, _files_of(directory))


def _remove(directory: str, names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            files.remove(os.path.join(directory, name))


def _files_of(directory: str) -> set[str]:
    """Returns the shard files that the dataset_info.json of a directory names."""
    info = dataset_info.DatasetInfo.load(directory)
    shards = [shard.file for split in info.splits.values() for shard in split.shards]
    others = {dataset_info.BPE_FILE} if info.bpe_sha256 else set()  # another token type has none
    names = {*shards, *map(recordings.path_of, shards), *others}
    return {name for name in names if os.path.basename(name) == name}  # nothing that lies elsewhere


def _move(name: str, source: str, target: str) -> None:
    files.move(os.path.join(source, name), os.path.join(target, name))


def _read(path: str) -> bytes:
    with contextlib.suppress(FileNotFoundError), files.open_binary(path) as file:
        return file.read()
    return b""
