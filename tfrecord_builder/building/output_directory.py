"""The output directory of a build: files are written to OUTPUT/.build, and moved to OUTPUT at the end.

An interrupted build can therefore continue where it stopped, --overwrite keeps the old data until the new
data is complete, and unrelated files are not touched. dataset_info.json is moved last.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.program import urls
from tfrecord_builder.storage import directories, files, locks

_WORKSPACE = ".plan"
_STAGING = ".build"
_FINGERPRINT_FILE = "plan"
_PUBLISHED_FILE = "published"  # new name of _FINGERPRINT_FILE once only dataset_info.json is left to move
_REPLACED = "replaced"
_SCRATCH = "labels"
_NOT_PUBLISHED = {_FINGERPRINT_FILE, _REPLACED, _SCRATCH, dataset_info.INFO_FILE}


@contextlib.contextmanager
def reserve(output_dir: str, overwrite: bool) -> Iterator[str]:
    """Creates the directory if necessary, and locks it against other builds.

    Yields a local directory for scratch files, which is removed on exit. Directories in object stores cannot
    be locked, so users must not run two builds in the same directory. Raises UserError if the directory
    cannot be used, another build is running in it, or a write fails (for example, because the disk is full).
    """
    _check_usable(output_dir, overwrite=True)  # raises UserError before anything is created
    is_remote = urls.is_remote(output_dir)
    try:
        with _lock(output_dir):
            _clear_leftovers(output_dir)
            path = os.path.join(output_dir, _WORKSPACE)
            with tempfile.TemporaryDirectory() if is_remote else directories.temporary(path) as workspace:
                _check_usable(output_dir, overwrite)
                yield workspace
    except OSError as error:
        if urls.is_remote(str(error.filename)) and not str(error.filename).startswith(output_dir):
            raise  # the object store that holds the corpus failed
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be written to ({error.strerror or error}); "
            "free some space or fix the permissions, then run the build again: finished shards are kept."
        ) from error


def start(output_dir: str, fingerprint: str, overwrite: bool) -> str:
    """Prepares the staging directory; keeps the shards of an interrupted build with the same fingerprint.

    Raises UserError if an interrupted build has a different fingerprint and `overwrite` is False.
    """
    staging = os.path.join(output_dir, _STAGING)
    fingerprint_file = os.path.join(staging, _FINGERPRINT_FILE)
    earlier = b""
    with contextlib.suppress(FileNotFoundError), files.open_binary(fingerprint_file) as file:
        earlier = file.read()
    if earlier not in (b"", fingerprint.encode()):
        if not overwrite:
            raise errors.UserError(
                f"{output_dir} contains an interrupted build with a different corpus or different flags; "
                "run the original command to continue that build, or pass --overwrite to start again."
            )
        _withdraw(output_dir, staging)
        files.remove_tree(staging)
    files.make_directory(staging)
    # Object stores have no empty directories.
    names = files.list_names(staging) if files.is_directory(staging) else []
    _remove(staging, [name for name in names if name.endswith(".incomplete")])
    files.write_text(fingerprint_file, fingerprint)
    return staging


def scratch_directory(output_dir: str) -> str:
    """Creates a directory for files that workers share and resumed builds reuse; they are not published."""
    directory = os.path.join(output_dir, _STAGING, _SCRATCH)
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
    """Moves a finished build from the staging directory into place, and removes the old build's files."""
    staging = os.path.join(output_dir, _STAGING)
    info.save(staging)
    replaced = os.path.join(staging, _REPLACED)
    if _is_complete(output_dir):
        files.make_directory(replaced)
        _move(dataset_info.INFO_FILE, output_dir, replaced)
    old_files = _files_of(replaced) if _is_complete(replaced) else set()
    names = sorted(set(files.list_names(staging)) - _NOT_PUBLISHED)
    new_files = [name for name in names if not name.endswith((".incomplete", ".tfrecord.json"))]
    for name in new_files:
        _move(name, staging, output_dir)
    _remove(output_dir, old_files.difference(new_files))
    files.move(os.path.join(staging, _FINGERPRINT_FILE), os.path.join(staging, _PUBLISHED_FILE))
    _finish(output_dir)


def failure_path(output_dir: str, name: str) -> str:
    """Returns the path for a file that explains a failed build; it is never placed next to finished data."""
    staging = os.path.join(output_dir, _STAGING)
    files.make_directory(staging)
    return os.path.join(staging if _is_complete(output_dir) else output_dir, name)


@contextlib.contextmanager
def _lock(output_dir: str) -> Iterator[None]:
    """Creates and locks a directory; on exit, removes the directory if it is new and still empty."""
    existed = files.exists(output_dir)
    try:
        files.make_directory(output_dir)
    except OSError as error:
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be created ({error.strerror}); choose another directory."
        ) from None
    if urls.is_remote(output_dir):
        yield
        return
    busy = f"--output_dir: another build is writing to {output_dir}; wait until it ends."
    with locks.exclusive(output_dir, busy):
        try:
            yield
        finally:
            if not existed:
                with contextlib.suppress(OSError):
                    os.rmdir(output_dir)


def _check_usable(output_dir: str, overwrite: bool) -> None:
    """Raises UserError unless the directory is new or empty, or its build is unfinished or replaceable."""
    names = _list_names(output_dir)
    if dataset_info.INFO_FILE in names:
        try:
            dataset_info.DatasetInfo.load(output_dir)
        except (errors.UserError, OSError) as error:
            raise errors.UserError(
                f"--output_dir: {output_dir} contains a {dataset_info.INFO_FILE} that this version cannot "
                f"read ({error}); choose another directory."
            ) from None
        if not overwrite:
            raise errors.UserError(
                f"--output_dir: {output_dir} contains a finished build; "
                "pass --overwrite to replace it, or choose another directory."
            )
    elif names and not {_STAGING, _WORKSPACE} & set(names):
        raise errors.UserError(
            f"--output_dir: {output_dir} contains {', '.join(names[:3])}, but no build; choose an empty or a "
            "new directory."
        )


def _list_names(output_dir: str) -> list[str]:
    if not files.exists(output_dir):
        return []
    if not files.is_directory(output_dir):
        raise errors.UserError(f"--output_dir: {output_dir} is a file; choose a directory.")
    if not urls.is_remote(output_dir) and not os.access(output_dir, os.R_OK | os.W_OK | os.X_OK):
        raise errors.UserError(
            f"--output_dir: {output_dir} must be readable and writable; "
            "change its permissions or choose another directory."
        )
    return files.list_names(output_dir)


def _clear_leftovers(output_dir: str) -> None:
    """Finishes publishing if a build was killed during publication; the caller must hold the lock."""
    staging = os.path.join(output_dir, _STAGING)
    if files.exists(os.path.join(staging, _PUBLISHED_FILE)):
        _finish(output_dir)
    elif _is_complete(output_dir) and not urls.is_remote(output_dir):
        with contextlib.suppress(OSError):  # .build does not exist, or is not empty
            os.rmdir(staging)


def _finish(output_dir: str) -> None:
    """Moves dataset_info.json next to the published files, then removes the staging directory.

    The file that marks the build as published is removed last, so that an interrupted call can be repeated.
    """
    staging = os.path.join(output_dir, _STAGING)
    if _is_complete(staging):
        _move(dataset_info.INFO_FILE, staging, output_dir)
    for name in set(files.list_names(staging)) - {_PUBLISHED_FILE}:
        path = os.path.join(staging, name)
        (files.remove_tree if files.is_directory(path) else files.remove)(path)
    files.remove_tree(staging)


def _withdraw(output_dir: str, staging: str) -> None:
    """Removes the files of a partially published build and of the earlier build that it was replacing."""
    if _is_complete(output_dir):
        return
    for directory in (staging, os.path.join(staging, _REPLACED)):
        if _is_complete(directory):
            _remove(output_dir, _files_of(directory))


def _is_complete(directory: str) -> bool:
    return files.exists(os.path.join(directory, dataset_info.INFO_FILE))


def _files_of(directory: str) -> set[str]:
    """Returns the files listed in dataset_info.json: shards, their .jsonl files, and any BPE model."""
    info = dataset_info.DatasetInfo.load(directory)
    shards = [shard.file for shard in info.shards]
    bpe_files = {dataset_info.BPE_FILE} if info.bpe_sha256 else set()  # exists only for token type bpe
    names = {*shards, *map(recordings.path_of, shards), *bpe_files}
    return {name for name in names if os.path.basename(name) == name}  # excludes files in other directories


def _remove(directory: str, names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            files.remove(os.path.join(directory, name))


def _move(name: str, source: str, target: str) -> None:
    files.move(os.path.join(source, name), os.path.join(target, name))
