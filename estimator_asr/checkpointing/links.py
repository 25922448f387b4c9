"""Hard links to the files of a checkpoint: names of their own, which outlive those that the Saver deletes."""

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
    """Links the files of a checkpoint in another directory; copies them where the file system has no links.

    The .index comes last, and whoever deletes a checkpoint deletes it first: a checkpoint that has one is
    complete.

    Args:
        checkpoint: its prefix.
        directory: exists; files of that name in it are replaced.

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


@contextlib.contextmanager
def hold(checkpoint: str) -> Iterator[str]:
    """Keeps the weights of a checkpoint while they are evaluated, although another process deletes its files.

    Only one process per model directory may hold checkpoints; what it held when it was killed is removed.

    Yields:
        The prefix to read: in MODEL_DIR/evaluating.

    Raises:
        DeletedError: the checkpoint is missing, or was deleted meanwhile.
    """
    directory = os.path.join(os.path.dirname(checkpoint), HELD_DIRECTORY)
    os.makedirs(directory, exist_ok=True)  # of a killed one, or NFS kept it for a file that is still open
    try:
        yield link(checkpoint, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _link_file(source, target):
    if os.path.exists(target) and os.path.samefile(source, target):
        return  # a rename over itself would leave the other name
    with files.writing(target) as path:
        try:
            os.link(source, path)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            shutil.copyfile(source, path)
