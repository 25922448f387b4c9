"""Which tables make up a corpus, and which split each of them is."""

from __future__ import annotations

import os
from typing import Optional

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import layout

_SUFFIXES = (".csv", ".tsv")
_METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")  # of Hugging Face's AudioFolder


def find(path: str) -> list[tuple[Optional[str], str]]:
    """Returns (split, path) of each table of a directory, or of one that is named itself.

    The split is None where only the table can say it.

    Raises:
      UserError: there is no table, or it is unclear which.
    """
    if not files.is_directory(path):
        return [(layout.split_in(os.path.basename(path)), path)]
    names = files.list_names(path)
    tables = [name for name in names if name.lower().endswith(_SUFFIXES) and not name.startswith(".")]
    found = _find_splits(path, tables) or _find_metadata(path, names)
    if not found and len(tables) == 1:
        found = [(None, os.path.join(path, tables[0]))]
    if not found:
        raise errors.UserError(
            f"{path}: it has {', '.join(tables[:5]) or 'no table'}, expected train.csv or train.tsv (and dev "
            "or valid, test), metadata.csv or .jsonl, train/metadata.csv, or a single table; pass their "
            "directory or one table itself."
        )
    return found


def _find_splits(directory: str, tables: list[str]) -> list[tuple[Optional[str], str]]:
    """Finds train.csv, or where a split has none of that name, what has it in its name: dev-clean.csv."""
    found = []
    for split in manifest.SPLITS:
        exact = [name for name in tables if layout.split_of(os.path.splitext(name)[0]) == split]
        others = [name for name in tables if layout.split_in(name) == split]
        found += [(split, os.path.join(directory, name)) for name in exact or others]
    return found


def _find_metadata(directory: str, names: list[str]) -> list[tuple[Optional[str], str]]:
    """Finds metadata.csv here, or in directories named after splits."""
    here = [(None, os.path.join(directory, name)) for name in names if name in _METADATA]
    folders = [(split, os.path.join(directory, name)) for split, name in layout.named_splits(names)]
    below = [(split, os.path.join(path, name)) for split, path in folders for name in _METADATA]
    return here or [(split, path) for split, path in below if files.exists(path)]
