"""The staging directory of a build: files are written to OUTPUT/.build, and moved to OUTPUT when complete.

An interrupted build can therefore continue where it stopped, --overwrite keeps the old data until the new
data is complete, and unrelated files are not touched. dataset_info.json is moved last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

STAGING = ".build"
_FINGERPRINT_FILE = "plan"
_PUBLISHED_FILE = "published"  # _FINGERPRINT_FILE is renamed to this before dataset_info.json is moved
_REPLACED = "replaced"
_SCRATCH = "labels"
_NOT_PUBLISHED = {_FINGERPRINT_FILE, _REPLACED, _SCRATCH, dataset_info.INFO_FILE}


def is_complete(output_dir: str) -> bool:
    """Returns True if the directory contains a finished build."""
    return files.exists(os.path.join(output_dir, dataset_info.INFO_FILE))


def start(output_dir: str, fingerprint: str, overwrite: bool) -> str:
    """Prepares the staging directory; keeps the shards of an interrupted build with the same fingerprint.

    Raises UserError if an interrupted build has a different fingerprint and `overwrite` is False.
    """
    staging = os.path.join(output_dir, STAGING)
    fingerprint_file = os.path.join(staging, _FINGERPRINT_FILE)
    if _read(fingerprint_file) not in (b"", fingerprint.encode()):
        if not overwrite:
            raise errors.UserError(
                f"{output_dir}: the interrupted build there had another corpus or other flags; "
                "pass the same ones to continue it, or --overwrite to start again."
            )
        _withdraw(output_dir, staging)
        files.remove_tree(staging)
    files.make_directory(staging)
    # Object stores do not have empty directories.
    names = files.list_names(staging) if files.is_directory(staging) else []
    _remove(staging, [name for name in names if name.endswith(".incomplete")])
    files.write_text(fingerprint_file, fingerprint)
    return staging


def scratch_directory(output_dir: str) -> str:
    """Creates a directory for files that workers share; they are kept for resuming but not published."""
    directory = os.path.join(output_dir, STAGING, _SCRATCH)
    files.make_directory(directory)
    return directory


def take_over(names: Iterable[str], workspace: str, staging: str) -> None:
    """Moves the named files from the workspace to the staging directory."""
    for name in names:
        if urls.is_remote(staging):
            files.copy(os.path.join(workspace, name), os.path.join(staging, name))
        else:
            _move(name, workspace, staging)


def publish(output_dir: str, info: dataset_info.DatasetInfo) -> None:
    """Moves a finished build from the staging directory into place, and removes the old files it replaces."""
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
    """Returns the path for a file about a failed build; the path is never next to finished data."""
    staging = os.path.join(output_dir, STAGING)
    files.make_directory(staging)
    return os.path.join(staging if is_complete(output_dir) else output_dir, name)


def clear_leftovers(output_dir: str) -> None:
    """Finishes publishing if a build was killed while it was being published; requires the lock."""
    staging = os.path.join(output_dir, STAGING)
    if files.exists(os.path.join(staging, _PUBLISHED_FILE)):
        _finish(output_dir)
    elif is_complete(output_dir) and not urls.is_remote(output_dir):
        with contextlib.suppress(OSError):  # .build does not exist, or is not empty
            os.rmdir(staging)


def _finish(output_dir: str) -> None:
    """Moves dataset_info.json to the published files, then removes the staging directory.

    The file that marks the build as published is removed last, so that an interrupted call can be repeated.
    """
    staging = os.path.join(output_dir, STAGING)
    if is_complete(staging):
        _move(dataset_info.INFO_FILE, staging, output_dir)
    for name in set(files.list_names(staging)) - {_PUBLISHED_FILE}:
        path = os.path.join(staging, name)
        (files.remove_tree if files.is_directory(path) else files.remove)(path)
    files.remove_tree(staging)


def _withdraw(output_dir: str, staging: str) -> None:
    """Removes the files of a partly published build and of the earlier build that it was replacing."""
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
    """Returns the files listed in a directory's dataset_info.json: shards, their .jsonl, any BPE model."""
    info = dataset_info.DatasetInfo.load(directory)
    shards = [shard.file for split in info.splits.values() for shard in split.shards]
    bpe_files = {dataset_info.BPE_FILE} if info.bpe_sha256 else set()  # only for token type bpe
    names = {*shards, *map(recordings.path_of, shards), *bpe_files}
    return {name for name in names if os.path.basename(name) == name}  # never files in other directories


def _move(name: str, source: str, target: str) -> None:
    files.move(os.path.join(source, name), os.path.join(target, name))


def _read(path: str) -> bytes:
    with contextlib.suppress(FileNotFoundError), files.open_binary(path) as file:
        return file.read()
    return b""
