"""Hard links to checkpoint files: they remain when the Saver deletes the originals."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from estimator_asr.checkpointing import checkpoints
from tfrecord_builder import files

HELD_DIRECTORY = "evaluating"


class DeletedError(FileNotFoundError):
    """The checkpoint is missing, or was deleted while it was linked."""


def link(checkpoint: str, directory: str) -> str:
    """Links the files of a checkpoint into a directory; copies them if the file system has no links.

    The .index comes last, and is the first that is deleted: a checkpoint that has one is complete.

    Args:
        checkpoint: prefix.
        directory: an existing one; files of the same names are replaced.

    Returns:
        The prefix in `directory`.

    Raises:
        DeletedError: the checkpoint is missing, or was deleted meanwhile.
    """
    index = f"{checkpoint}.index"
    data = [path for path in checkpoints.list_files(checkpoint) if path != index]
    for path in [*data, index]:
        try:
            _link_file(path, os.path.join(directory, os.path.basename(path)))
        except FileNotFoundError as error:
            raise DeletedError(error.errno, error.strerror, path) from None
    return os.path.join(directory, os.path.basename(checkpoint))


def _link_file(source, target):
    if os.path.exists(target) and os.path.samefile(source, target):
        return  # rename does nothing if both names are links to one file, and the temporary name would stay
    with files.writing(target) as path:
        try:
            os.link(source, path)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            shutil.copyfile(source, path)


@contextlib.contextmanager
def hold(checkpoint: str) -> Iterator[str]:
    """Keeps the files of a checkpoint during its evaluation, even if another process deletes them.

    Only one process per model directory may hold checkpoints.

    Yields:
        The prefix to read, in MODEL_DIR/evaluating.

    Raises:
        DeletedError: the checkpoint is missing, or was deleted meanwhile.
    """
    directory = os.path.join(os.path.dirname(checkpoint), HELD_DIRECTORY)
    os.makedirs(directory, exist_ok=True)  # remains of a killed process, or of an open file on NFS
    try:
        yield link(checkpoint, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
