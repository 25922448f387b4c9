"""The directory that a build writes: whether it may be used, and who holds it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from tfrecord_builder import dataset_info, errors, files
from tfrecord_builder.building import staging

_WORKSPACE = ".plan"


def check_usable(output_dir: str, overwrite: bool) -> None:
    """Raises UserError if there is a file, a finished build (without overwrite) or what is no build.

    Nor may it be a directory that cannot be read and written.
    """
    names = _list_names(output_dir)
    if staging.is_complete(output_dir):
        _check_ours(output_dir)
        if not overwrite:
            raise errors.UserError(
                f"--output_dir: {output_dir} holds a finished build, expected none; "
                "pass --overwrite to replace it, or choose another directory."
            )
    elif names and not {staging.STAGING, _WORKSPACE} & set(names):
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
            shutil.rmtree(os.path.join(output_dir, _WORKSPACE), ignore_errors=True)  # of a build killed
            staging.clear_leftovers(output_dir)
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
    was_there, is_ours = files.exists(output_dir), False
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
        is_ours = files.take_lock(descriptor, output_dir)
        if not is_ours:
            raise errors.UserError(
                f"--output_dir: another build is writing to {output_dir}, expected none; wait for it to end."
            )
        yield
    finally:
        if is_ours and not was_there:
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
