"""The directory that a build writes: who may write there, what an earlier build left, how the result appears.

Everything is made in OUTPUT/.build and moved up when it is whole, dataset_info.json last. So an interrupted
build goes on where it stopped, --overwrite keeps the old data until the new stands, and files that are not
ours stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator

from tfrecord_builder import dataset_info, errors, files, items

_STAGING = ".build"
_WORKSPACE = ".plan"
_PLAN_FILE = "plan"
_PUBLISHED_FILE = "published"  # what the plan file becomes when all but dataset_info.json is in place
_REPLACED = "replaced"
_OURS_ALONE = {_PLAN_FILE, _PUBLISHED_FILE, _REPLACED, dataset_info.INFO_FILE}
_UNFINISHED_SUFFIXES = (".incomplete", ".tfrecord.json", ".tfrecord.error")


def is_complete(output_dir: str) -> bool:
    """True if a finished build is there."""
    return files.exists(os.path.join(output_dir, dataset_info.INFO_FILE))


def check_usable(output_dir: str, overwrite: bool) -> None:
    """Raises UserError if there is a file, a finished build (without overwrite) or what is no build.

    Nor may it be a directory that cannot be read and written.
    """
    names = _list_names(output_dir)
    if is_complete(output_dir):
        _check_ours(output_dir)
        if not overwrite:
            raise errors.UserError(
                f"--output_dir: {output_dir} holds a finished build, expected none; "
                "pass --overwrite to replace it, or choose another directory."
            )
    elif names and not {_STAGING, _WORKSPACE} & set(names):
        raise errors.UserError(
            f"--output_dir: {output_dir} holds {', '.join(names[:3])} and no build, expected an empty or "
            "a new directory; choose another one, nothing was touched."
        )


@contextlib.contextmanager
def reserve(output_dir: str, overwrite: bool) -> Iterator[str]:
    """Makes the directory if need be and holds it against other builds.

    An object store knows no locks: there, two builds into one directory are the user's to avoid.

    Yields:
      A local directory for scratch files; it goes away at the end.

    Raises:
      UserError: it is not usable, another build is running in it, or what is done in the meantime cannot be
        written, as on a full disk.
    """
    check_usable(output_dir, overwrite=True)  # before anything is made there
    try:
        with _lock(output_dir):
            _clear_leftovers(output_dir)
            check_usable(output_dir, overwrite)
            with _make_workspace(output_dir) as workspace:
                yield workspace
    except OSError as error:
        if files.is_remote(str(error.filename)) and not str(error.filename).startswith(output_dir):
            raise  # the corpus's store, not this one
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be written ({error.strerror or error}), expected room and "
            "permission; make room and call the build again: finished shards are kept."
        ) from error


def start(output_dir: str, fingerprint: str, overwrite: bool) -> str:
    """Prepares the staging directory; finished shards of an interrupted build of the same fingerprint stay.

    Returns:
      The directory in which to make everything.

    Raises:
      UserError: an interrupted build was of another corpus or other flags, and overwrite is off.
    """
    staging = os.path.join(output_dir, _STAGING)
    plan_file = os.path.join(staging, _PLAN_FILE)
    if _read(plan_file) not in ("", fingerprint):
        if not overwrite:
            raise errors.UserError(
                f"{output_dir}: an interrupted build there was of another corpus or other flags, "
                "expected the same as this one; repeat them to go on, or pass --overwrite to start afresh."
            )
        files.remove_tree(staging)  # ours: nobody else names a directory so
    files.make_directory(staging)
    with files.writing(plan_file) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(fingerprint)
    return staging


def take_over(names: Iterable[str], workspace: str, staging: str) -> None:
    """Puts files of the workspace into the staging directory."""
    for name in names:
        with files.writing(os.path.join(staging, name)) as temporary:
            shutil.copyfile(os.path.join(workspace, name), temporary)


def publish(output_dir: str, info: dataset_info.DatasetInfo) -> None:
    """Moves a whole build from the staging directory into place, and removes the shards it replaces."""
    staging = os.path.join(output_dir, _STAGING)
    info.save(staging)
    replaced = os.path.join(staging, _REPLACED)
    if is_complete(output_dir):
        files.make_directory(replaced)
        _move(dataset_info.INFO_FILE, output_dir, replaced)
    old_files = _files_of(dataset_info.DatasetInfo.load(replaced)) if is_complete(replaced) else set()
    new_files = _finished_files(staging)
    for name in new_files:
        _move(name, staging, output_dir)
    for name in old_files.difference(new_files):
        with contextlib.suppress(FileNotFoundError):
            files.remove(os.path.join(output_dir, name))
    files.move(os.path.join(staging, _PLAN_FILE), os.path.join(staging, _PUBLISHED_FILE))
    _move(dataset_info.INFO_FILE, staging, output_dir)
    files.remove_tree(staging)


def failure_path(output_dir: str, name: str) -> str:
    """Gives where to leave a file of a failed build: beside the data of a finished one it would mislead."""
    staging = os.path.join(output_dir, _STAGING)
    files.make_directory(staging)
    return os.path.join(staging if is_complete(output_dir) else output_dir, name)


def _check_ours(output_dir: str) -> None:
    try:
        dataset_info.DatasetInfo.load(output_dir)
    except (errors.UserError, OSError) as error:
        raise errors.UserError(
            f"--output_dir: {output_dir} holds a {dataset_info.INFO_FILE} of another program or version, "
            f"expected none or a build; choose another directory, nothing was touched ({error})."
        ) from None


def _list_names(output_dir: str) -> list[str]:
    """Gives what is in the directory, nothing where there is none; raises UserError if it cannot be used."""
    if not files.exists(output_dir):
        return []
    if not files.is_directory(output_dir):
        raise errors.UserError(
            f"--output_dir: {output_dir} is a file, expected a directory; choose another name."
        )
    if not files.is_remote(output_dir) and not os.access(output_dir, os.R_OK | os.W_OK | os.X_OK):
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be read and written, expected permission for both; "
            "change its permissions or choose another directory."
        )
    return files.list_names(output_dir)


@contextlib.contextmanager
def _lock(output_dir: str) -> Iterator[None]:
    """Holds a directory, which is made; one that was not there and stays empty goes away again."""
    was_there = files.exists(output_dir)
    try:
        files.make_directory(output_dir)
        descriptor = None if files.is_remote(output_dir) else os.open(output_dir, os.O_RDONLY)
    except OSError as error:
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be made ({error.strerror}), "
            "expected a directory to write to; choose another."
        ) from None
    if descriptor is None:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise errors.UserError(
            f"--output_dir: another build is writing to {output_dir}, expected none; wait for it to end."
        ) from None
    finally:
        if not was_there:
            with contextlib.suppress(OSError):
                os.rmdir(output_dir)
        os.close(descriptor)  # gives the lock back; so does any death of the process


@contextlib.contextmanager
def _make_workspace(output_dir: str) -> Iterator[str]:
    if files.is_remote(output_dir):
        with tempfile.TemporaryDirectory() as workspace:
            yield workspace
        return
    workspace = os.path.join(output_dir, _WORKSPACE)
    os.mkdir(workspace)
    try:
        yield workspace
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _clear_leftovers(output_dir: str) -> None:
    """Removes what a build that was killed leaves beside its finished shards."""
    shutil.rmtree(os.path.join(output_dir, _WORKSPACE), ignore_errors=True)
    staging = os.path.join(output_dir, _STAGING)
    if files.exists(os.path.join(staging, _PUBLISHED_FILE)):
        files.remove_tree(staging)


def _finished_files(staging: str) -> list[str]:
    names = set(files.list_names(staging)) - _OURS_ALONE
    return sorted(name for name in names if not name.endswith(_UNFINISHED_SUFFIXES))


def _files_of(info: dataset_info.DatasetInfo) -> set[str]:
    shards = [shard.file for split in info.splits.values() for shard in split.shards]
    pieces = {dataset_info.BPE_FILE} if info.bpe_sha256 else set()  # another unit has none
    return {*shards, *map(items.path_of, shards), *pieces}


def _move(name: str, source: str, target: str) -> None:
    files.move(os.path.join(source, name), os.path.join(target, name))


def _read(path: str) -> str:
    try:
        with files.open_binary(path) as file:
            return file.read().decode()
    except FileNotFoundError:
        return ""
