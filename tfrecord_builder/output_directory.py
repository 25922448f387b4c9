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
from collections.abc import Iterator

from tfrecord_builder import dataset_info, errors

_STAGING = ".build"
_PLAN_FILE = "plan"
_REPLACED = "replaced"
_COMPANIONS = (
    dataset_info.TOKENS_FILE,
    dataset_info.CHARACTERS_FILE,
    dataset_info.READINGS_FILE,
    dataset_info.REJECTED_FILE,
)


def is_complete(output_dir: str) -> bool:
    """True if a finished build is there."""
    return os.path.exists(os.path.join(output_dir, dataset_info.INFO_FILE))


def check_usable(output_dir: str, overwrite: bool) -> None:
    """Raises UserError if there is a file, a finished build (without overwrite) or what is no build.

    Nor may it be a directory that cannot be read and written.
    """
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise errors.UserError(
            f"--output_dir: {output_dir} is a file, expected a directory; choose another name."
        )
    if os.path.isdir(output_dir) and not os.access(output_dir, os.R_OK | os.W_OK | os.X_OK):
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be read and written, expected permission for both; "
            "change its permissions or choose another directory."
        )
    if is_complete(output_dir):
        _check_ours(output_dir)
        if not overwrite:
            raise errors.UserError(
                f"--output_dir: {output_dir} holds a finished build, expected none; "
                "pass --overwrite to replace it, or choose another directory."
            )
    names = sorted(os.listdir(output_dir)) if os.path.isdir(output_dir) else []
    is_ours = is_complete(output_dir) or _STAGING in names
    if names and not is_ours:
        raise errors.UserError(
            f"--output_dir: {output_dir} holds {', '.join(names[:3])} and no build, expected an empty or "
            "a new directory; choose another one, nothing was touched."
        )


@contextlib.contextmanager
def reserve(output_dir: str, overwrite: bool) -> Iterator[None]:
    """Makes the directory if need be and holds it against other builds.

    Raises:
      UserError: it is not usable, another build is running in it, or what is done in the meantime cannot be
        written, as on a full disk.
    """
    check_usable(output_dir, overwrite)
    descriptor = _open(output_dir)
    try:
        _lock(descriptor, output_dir)
        check_usable(output_dir, overwrite)  # another build may have finished in between
        yield
    except OSError as error:
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be written ({error.strerror or error}), expected room and "
            "permission; make room and call the build again: finished shards are kept."
        ) from error
    finally:
        os.close(descriptor)  # gives the lock back; so does any death of the process


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
        shutil.rmtree(staging)  # ours: nobody else names a directory so
    os.makedirs(staging, exist_ok=True)
    with open(plan_file, "w", encoding="utf-8") as file:
        file.write(fingerprint)
    return staging


def publish(output_dir: str, info: dataset_info.DatasetInfo) -> None:
    """Moves a whole build from the staging directory into place, and removes the shards it replaces."""
    staging = os.path.join(output_dir, _STAGING)
    info.save(staging)
    replaced = os.path.join(staging, _REPLACED)
    if is_complete(output_dir):
        os.makedirs(replaced, exist_ok=True)
        _move(dataset_info.INFO_FILE, output_dir, replaced)
    old_shards = _shard_files(dataset_info.DatasetInfo.load(replaced)) if is_complete(replaced) else set()
    new_shards = _shard_files(info)
    pieces = {dataset_info.BPE_FILE}  # of one unit only
    companions = [*_COMPANIONS, *(pieces if info.bpe_sha256 else ())]
    for name in [*sorted(new_shards), *companions, dataset_info.INFO_FILE]:
        _move(name, staging, output_dir)
    for name in (old_shards | pieces) - new_shards - set(companions):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(output_dir, name))
    shutil.rmtree(staging)


def failure_path(output_dir: str, name: str) -> str:
    """Gives where to leave a file of a failed build: beside the data of a finished one it would mislead."""
    staging = os.path.join(output_dir, _STAGING)
    os.makedirs(staging, exist_ok=True)
    return os.path.join(staging if is_complete(output_dir) else output_dir, name)


def _check_ours(output_dir: str) -> None:
    try:
        dataset_info.DatasetInfo.load(output_dir)
    except (errors.UserError, OSError) as error:
        raise errors.UserError(
            f"--output_dir: {output_dir} holds a {dataset_info.INFO_FILE} of another program or version, "
            f"expected none or a build; choose another directory, nothing was touched ({error})."
        ) from None


def _open(output_dir: str) -> int:
    try:
        os.makedirs(output_dir, exist_ok=True)
        return os.open(output_dir, os.O_RDONLY)
    except OSError as error:
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be made ({error.strerror}), "
            "expected a directory to write to; choose another."
        ) from None


def _lock(descriptor: int, output_dir: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise errors.UserError(
            f"--output_dir: another build is writing to {output_dir}, expected none; wait for it to end."
        ) from None


def _shard_files(info: dataset_info.DatasetInfo) -> set[str]:
    return {shard.file for split in info.splits.values() for shard in split.shards}


def _move(name: str, source: str, target: str) -> None:
    os.replace(os.path.join(source, name), os.path.join(target, name))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
