"""The layout of corpus directories: required files, recordings, relative paths and split names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

_MAX_NOTES = 3  # maximum number of warnings about files in parent directories; there may be thousands
# The names that corpora use for their splits, in lower case.
SPLIT_NAMES = {
    "train": ("train", "training", "训练", "训练集"),
    "dev": ("dev", "devel", "development", "val", "valid", "validation", *"验证 验证集 开发 开发集".split()),
    "test": ("test", "testing", "eval", "evaluation", *"测试 测试集 评估 评估集".split()),
}


def require(corpus_dir: str, names: Iterable[str], corpus: str, remedy: str) -> None:
    """Raises errors.UserError if a file or directory of a corpus is missing from corpus_dir."""
    names = list(names)
    missing = [name for name in names if not files.exists(os.path.join(corpus_dir, name))]
    if missing:
        raise errors.UserError(
            f"{corpus_dir}: found no {' or '.join(missing)}, but {corpus} has {', '.join(names[:-1])} and "
            f"{names[-1]}; {remedy}."
        )


def find_recordings(directory: str, suffix: str) -> Iterator[str]:
    """Yields files with the suffix under a directory, except hidden files (macOS adds some named ._*.wav)."""
    for path in files.find_files(directory, (suffix,)):
        if not os.path.basename(path).startswith("."):
            yield path


def recording_id(path: str) -> str:
    """Returns a file's name without the suffix; bytes that are not valid UTF-8 become backslash escapes."""
    name = os.path.splitext(os.path.basename(path))[0]
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def resolve(directory: str, path: str) -> str:
    """Resolves a path from a list in `directory`; the path can be relative to `directory`, absolute or a URL.

    Backslashes in a Windows path (wav\\a.wav) become slashes, unless a file with exactly that name exists. In
    many lists, paths are relative to the directory where a recipe ran, such as download/a.wav in
    egs/s5/data/train/wav.scp. Therefore, a file that does not exist in `directory` is taken from the
    nearest parent directory that contains it. Bare file names are not searched for in parent directories.
    """
    if urls.is_remote(path):
        return path
    if "\\" in path and not files.exists(os.path.join(directory, path)):
        path = path.replace("\\", "/")
    joined = os.path.join(directory, path)
    if urls.is_remote(directory) or os.path.isabs(path) or os.sep not in path or files.exists(joined):
        return joined
    parent = os.path.abspath(directory)
    while parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
        if files.exists(os.path.join(parent, path)):
            note = "%s: %s is read from %s"
            logging.log_first_n(logging.WARNING, note, _MAX_NOTES, directory, path, parent)
            return os.path.join(parent, path)
    return joined


def split_of(name: str) -> Optional[str]:
    """Returns the split that a name stands for, ignoring case ("Valid" is dev), or None for other names."""
    word = name.strip().lower()
    return next((split for split, names in SPLIT_NAMES.items() if word in names), None)


def named_splits(names: Iterable[str], suffix: str = "") -> list[tuple[str, str]]:
    """Returns (split, name) for each name of the form <split><suffix>, in the order train, dev, test."""
    matches = [(split_of(name.removesuffix(suffix)), name) for name in names if name.endswith(suffix)]
    return [match for split in SPLIT_NAMES for match in matches if match[0] == split]


def find_split_files(corpus_dir: str, suffix: str) -> list[tuple[str, str]]:
    """Returns (split, path) for the files train<suffix>, dev<suffix> (or valid<suffix>...) and test<suffix>.

    Raises errors.UserError if several files belong to one split.
    """
    split_files = named_splits(files.list_names(corpus_dir), suffix)
    if len(dict(split_files)) < len(split_files):
        names = ", ".join(name for _, name in split_files)
        raise errors.UserError(
            f"{corpus_dir}: some of {names} belong to the same split; merge them into one file per split."
        )
    return [(split, os.path.join(corpus_dir, name)) for split, name in split_files]


def find_lists(
    directory: str, names: Sequence[str], split: Optional[str] = "train"
) -> list[tuple[Optional[str], str]]:
    """Finds files by name in a directory, or else in its split folders; returns (split, path) pairs.

    `split` is the split of files in the directory itself. The split folders are train/, dev/ and test/, or
    have other names for these splits, such as valid/.
    """
    present = files.list_names(directory)
    lists = [(split, os.path.join(directory, name)) for name in present if name in names]
    folders = [(split, os.path.join(directory, folder)) for split, folder in named_splits(present)]
    below = [(split, os.path.join(folder, name)) for split, folder in folders for name in names]
    return lists or [(split, path) for split, path in below if files.exists(path)]


def split_in(name: str) -> Optional[str]:
    """Returns the split in a file name ("dev-clean.csv" is dev), or None if there is none or several."""
    splits = {split_of(word) for word in re.findall("[A-Za-z]+|[\u4e00-\u9fff]+", name)} - {None}
    return splits.pop() if len(splits) == 1 else None


def require_split(where: str, name: str) -> str:
    """Returns the split that a name in a list stands for; raises errors.UserError if it is not a split."""
    split = split_of(name)
    if split is None:
        names = "; ".join(", ".join(names) for names in SPLIT_NAMES.values())
        raise errors.UserError(f"{where}: split is {name!r}, expected one of {names}; fix the line.")
    return split
