"""The output directory of a build: checks whether it can be used, and locks it against other builds."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.building.output import staging
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files, locks

_WORKSPACE = ".plan"


def check_usable(output_dir: str, overwrite: bool) -> None:
    """Raises UserError unless the directory is new, is empty, has an unfinished build or may be replaced."""
    names = _list_names(output_dir)
    if dataset_info.INFO_FILE in names:
        _check_ours(output_dir)
        if not overwrite:
            raise errors.UserError(
                f"--output_dir: {output_dir} holds a finished build; "
                "pass --overwrite to replace it, or choose another directory."
            )
    elif names and not {staging.STAGING, _WORKSPACE} & set(names):
        raise errors.UserError(
            f"--output_dir: {output_dir} holds {', '.join(names[:3])} and no build; choose an empty or a "
            "new directory."
        )


@contextlib.contextmanager
def reserve(output_dir: str, overwrite: bool) -> Iterator[str]:
    """Creates the directory if necessary, and locks it against other builds.

    Directories in object stores cannot be locked: users must not run two builds in the same one.

    Yields:
        A local directory for scratch files, which is removed on exit.

    Raises:
        UserError: the directory cannot be used, another build is running in it, or writing to it fails, for
            example because the disk is full.
    """
    check_usable(output_dir, overwrite=True)  # refuses before anything is created
    workspace = os.path.join(output_dir, _WORKSPACE)
    try:
        with _lock(output_dir), contextlib.ExitStack() as stack:
            shutil.rmtree(workspace, ignore_errors=True)  # a killed build may have left it behind
            staging.clear_leftovers(output_dir)
            check_usable(output_dir, overwrite)
            if urls.is_remote(output_dir):
                workspace = stack.enter_context(tempfile.TemporaryDirectory())
            else:
                os.mkdir(workspace)
                stack.callback(shutil.rmtree, workspace, ignore_errors=True)
            yield workspace
    except OSError as error:
        if urls.is_remote(str(error.filename)) and not str(error.filename).startswith(output_dir):
            raise  # the store that holds the corpus failed
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be written ({error.strerror or error}); "
            "free some space or fix the permissions, then run the build again: finished shards are kept."
        ) from error


def _check_ours(output_dir: str) -> None:
    try:
        dataset_info.DatasetInfo.load(output_dir)
    except (errors.UserError, OSError) as error:
        raise errors.UserError(
            f"--output_dir: {output_dir} holds a {dataset_info.INFO_FILE} of another program or version "
            f"({error}); choose another directory."
        ) from None


def _list_names(output_dir: str) -> list[str]:
    if not files.exists(output_dir):
        return []
    if not files.is_directory(output_dir):
        raise errors.UserError(f"--output_dir: {output_dir} is a file; choose a directory.")
    if not urls.is_remote(output_dir) and not os.access(output_dir, os.R_OK | os.W_OK | os.X_OK):
        raise errors.UserError(
            f"--output_dir: {output_dir} cannot be read and written; "
            "change its permissions or choose another directory."
        )
    return files.list_names(output_dir)


@contextlib.contextmanager
def _lock(output_dir: str) -> Iterator[None]:
    """Creates and locks a directory; removes it on exit if it is new and still empty."""
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
