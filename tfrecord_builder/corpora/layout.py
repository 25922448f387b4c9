"""What lies where in the directory of a corpus, and what is not unpacked there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Optional

from absl import logging

from tfrecord_builder import errors, files

_ARCHIVE = ".tar.gz"
_MOST_NOTES = 3  # on directories above: a line of a list each
# What corpora call their splits, in lower case.
SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "devel", "development", "val", "valid", "validation"),
    "test": ("test", "testing", "eval", "evaluation"),
}


def require(corpus_dir: str, names: Iterable[str], corpus: str, remedy: str) -> None:
    """Raises UserError if a file or directory that makes up the corpus is not in corpus_dir."""
    names = list(names)
    missing = [name for name in names if not files.exists(os.path.join(corpus_dir, name))]
    if missing:
        raise errors.UserError(
            f"{corpus_dir}: {', '.join(missing)} is missing, expected "
            f"{', '.join(names[:-1])} and {names[-1]} of {corpus}; {remedy}."
        )


def check_unpacked(directory: str, folders: Iterable[str]) -> None:
    """Raises UserError if an archive in a directory has no folder of its name in any of the given folders."""
    if not files.is_directory(directory):
        return
    unpacked = {name for folder in folders if files.is_directory(folder) for name in files.list_names(folder)}
    archives = [name for name in files.list_names(directory) if _is_visible(name) and name.endswith(_ARCHIVE)]
    packed = [name for name in archives if name[: -len(_ARCHIVE)] not in unpacked]
    if packed:
        raise errors.UserError(
            f"{directory}: {len(packed)} of {len(archives)} archives are not unpacked ({packed[0]} is one), "
            "expected a folder for each; unpack them, or move away those that you do not want."
        )


def find_recordings(directory: str, suffix: str) -> Iterator[str]:
    """Yields the files below a directory whose names end so, without hidden ones (macOS adds ._*.wav)."""
    for path in files.find_files(directory, (suffix,)):
        if _is_visible(os.path.basename(path)):
            yield path


def recording_id(path: str) -> str:
    """Gives the name of a file without its suffix; bytes that are not UTF-8 as backslash and digits."""
    name = os.path.splitext(os.path.basename(path))[0]
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def resolve(directory: str, path: str) -> str:
    """Returns a path that a file in a directory names: from there, unless it is absolute or a URL.

    Many lists name files from where a recipe ran, as egs/s5/data/train/wav.scp does with download/a.wav: if
    there is none in the directory, from the nearest one above it that has the file. A name without a folder
    is not looked for above.
    """
    found = os.path.join(directory, path)
    is_remote = files.is_remote(path) or files.is_remote(directory)
    if is_remote or os.path.isabs(path) or os.sep not in path or files.exists(found):
        return path if files.is_remote(path) else found
    above = os.path.abspath(directory)
    while above != os.path.dirname(above):
        above = os.path.dirname(above)
        if files.exists(os.path.join(above, path)):
            note = "%s: %s is read from %s"
            logging.log_first_n(logging.WARNING, note, _MOST_NOTES, directory, path, above)
            return os.path.join(above, path)
    return found


def split_of(name: str) -> Optional[str]:
    """Returns the split that a name stands for, in any case ("Valid" is dev); None if it names no split."""
    word = name.strip().lower()
    return next((split for split, names in SPLIT_NAMES.items() if word in names), None)


def named_splits(names: Iterable[str], suffix: str = "") -> list[tuple[str, str]]:
    """Returns (split, name) of those names that are a split and the suffix: train before dev before test."""
    found = [(split_of(name.removesuffix(suffix)), name) for name in names if name.endswith(suffix)]
    return [(split, name) for split in SPLIT_NAMES for each, name in found if each == split]


def split_in(name: str) -> Optional[str]:
    """Returns the split that a word in the name of a file stands for ("dev-clean.csv" is dev), if any."""
    splits = {split_of(word) for word in re.split(r"[^A-Za-z]+", name)} - {None}
    return splits.pop() if len(splits) == 1 else None


def require_split(where: str, name: str) -> str:
    """Returns the split that a name in a list stands for; raises UserError, with all names, if it is none."""
    split = split_of(name)
    if split is None:
        names = "; ".join(", ".join(names) for names in SPLIT_NAMES.values())
        raise errors.UserError(f"{where}: split is {name!a}, expected one of {names}; fix the line.")
    return split


def _is_visible(name: str) -> bool:
    return not name.startswith(".")
