"""How the result of a build appears: made in OUTPUT/.build, and moved up when it is whole.

So an interrupted build goes on where it stopped, --overwrite keeps the old data until the new stands, and
files that are not ours stay. dataset_info.json goes last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable

from tfrecord_builder import dataset_info, errors, files
from tfrecord_builder.building import items

STAGING = ".build"
_PLAN_FILE = "plan"
_PUBLISHED_FILE = "published"  # what the plan file becomes when all but dataset_info.json is in place
_REPLACED = "replaced"
_OURS_ALONE = {_PLAN_FILE, _PUBLISHED_FILE, _REPLACED, dataset_info.INFO_FILE}
_TEMPORARY_SUFFIX = ".incomplete"
_UNFINISHED_SUFFIXES = (_TEMPORARY_SUFFIX, ".tfrecord.json", ".tfrecord.error")


def is_complete(output_dir: str) -> bool:
    """True if a finished build is there."""
    return files.exists(os.path.join(output_dir, dataset_info.INFO_FILE))


def start(output_dir: str, fingerprint: str, overwrite: bool) -> str:
    """Prepares the staging directory; finished shards of an interrupted build of the same fingerprint stay.

    Returns:
      The directory in which to make everything.

    Raises:
      UserError: an interrupted build was of another corpus or other flags, and overwrite is off.
    """
    staging = os.path.join(output_dir, STAGING)
    plan_file = os.path.join(staging, _PLAN_FILE)
    if _read(plan_file) not in ("", fingerprint):
        if not overwrite:
            raise errors.UserError(
                f"{output_dir}: an interrupted build there was of another corpus or other flags, "
                "expected the same as this one; repeat them to go on, or pass --overwrite to start afresh."
            )
        _withdraw(output_dir, staging)
        files.remove_tree(staging)  # ours: nobody else names a directory so
    files.make_directory(staging)
    _remove_unfinished(staging)
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
    staging = os.path.join(output_dir, STAGING)
    info.save(staging)
    replaced = os.path.join(staging, _REPLACED)
    if is_complete(output_dir):
        files.make_directory(replaced)
        _move(dataset_info.INFO_FILE, output_dir, replaced)
    old_files = _files_of(dataset_info.DatasetInfo.load(replaced)) if is_complete(replaced) else set()
    new_files = _finished_files(staging)
    for name in new_files:
        _move(name, staging, output_dir)
    _remove(output_dir, old_files.difference(new_files))
    files.move(os.path.join(staging, _PLAN_FILE), os.path.join(staging, _PUBLISHED_FILE))
    _end(output_dir)


def failure_path(output_dir: str, name: str) -> str:
    """Gives where to leave a file of a failed build: beside the data of a finished one it would mislead."""
    staging = os.path.join(output_dir, STAGING)
    files.make_directory(staging)
    return os.path.join(staging if is_complete(output_dir) else output_dir, name)


def clear_leftovers(output_dir: str) -> None:
    """Ends what a build that was killed had all but ended; call it with the directory locked."""
    staging = os.path.join(output_dir, STAGING)
    if files.exists(os.path.join(staging, _PUBLISHED_FILE)):
        _end(output_dir)
    elif is_complete(output_dir) and not files.is_remote(output_dir):
        with contextlib.suppress(OSError):  # there is none, or it holds something
            os.rmdir(staging)


def _end(output_dir: str) -> None:
    """Puts dataset_info.json beside what is published, then clears the staging directory.

    The file that says that all is published goes last, so that this can be done again.
    """
    staging = os.path.join(output_dir, STAGING)
    if is_complete(staging):
        _move(dataset_info.INFO_FILE, staging, output_dir)
    for name in set(files.list_names(staging)) - {_PUBLISHED_FILE}:
        path = os.path.join(staging, name)
        (files.remove_tree if files.is_directory(path) else files.remove)(path)
    files.remove_tree(staging)


def _withdraw(output_dir: str, staging: str) -> None:
    """Removes what another plan had published in part, and what is left of the build that it replaced."""
    if is_complete(output_dir):
        return
    for directory in (staging, os.path.join(staging, _REPLACED)):
        if is_complete(directory):
            _remove(output_dir, _files_of(dataset_info.DatasetInfo.load(directory)))


def _remove_unfinished(staging: str) -> None:
    """Removes what builds that were killed had begun to write, which may be much."""
    names = files.list_names(staging) if files.is_directory(staging) else []  # a store has no empty ones
    _remove(staging, [name for name in names if name.endswith(_TEMPORARY_SUFFIX)])


def _remove(directory: str, names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            files.remove(os.path.join(directory, name))


def _finished_files(staging: str) -> list[str]:
    names = set(files.list_names(staging)) - _OURS_ALONE
    return sorted(name for name in names if not name.endswith(_UNFINISHED_SUFFIXES))


def _files_of(info: dataset_info.DatasetInfo) -> set[str]:
    shards = [shard.file for split in info.splits.values() for shard in split.shards]
    pieces = {dataset_info.BPE_FILE} if info.bpe_sha256 else set()  # another token type has none
    names = {*shards, *map(items.path_of, shards), *pieces}
    return {name for name in names if os.path.basename(name) == name}  # nothing that lies elsewhere


def _move(name: str, source: str, target: str) -> None:
    files.move(os.path.join(source, name), os.path.join(target, name))


def _read(path: str) -> str:
    try:
        with files.open_binary(path) as file:
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
