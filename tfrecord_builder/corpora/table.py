"""Tables with named columns, a header line and a row per utterance; two lines of train.csv:

    id,audio,text,speaker
    u1,wav/u1.wav,"今天,天气很好",s1

The files: train, dev and test as .csv or .tsv, or the names that others give these splits; or Hugging Face's
metadata.csv or metadata.jsonl, here or in train/, validation/, test/; or one table of any name, which can be
passed in place of the directory. A .csv is separated by commas, semicolons or vertical bars, whichever gives
the header its columns, and quoted as Python's csv module does (not with bars); a .tsv has tabs alone.
SpeechBrain's .json is passed itself; its data_root is the file's own directory:

    {"u1": {"wav": "{data_root}/wav/u1.wav", "spk_id": "s1", "words": "今天天气很好"}, ...}

The columns have the names of several projects (columns.py), in any case; other columns are ignored. A column
split takes precedence over the file name. start, end, duration (seconds) and channel select a segment. With
SpeechBrain's stop, start may count samples: the duration then tells the sample rate.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, rows
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_COMMAS = {"strict": True, "skipinitialspace": True}
_SEMICOLONS = {"delimiter": ";", **_COMMAS}
_BARS = {"delimiter": "|", "quoting": csv.QUOTE_NONE}
_METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")  # of Hugging Face's AudioFolder


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of the tables of a directory, or of a single table."""
    for split, path in _find_tables(corpus_dir):
        for where, row in _read_rows(path):
            yield rows.make_utterance(where, path, row, split)


def _read_rows(path: str) -> Iterator[tuple[str, rows.Row]]:
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".json", ".jsonl"):
        read = json_lines.read_named_objects if suffix == ".json" else json_lines.read_objects
        for where, fields in read(path):
            yield where, rows.read_object(where, fields)
        return
    formats = (rows.TABS,) if suffix == ".tsv" else (_COMMAS, _SEMICOLONS, _BARS, rows.TABS)
    yield from rows.read_table(path, formats=formats)


def _find_tables(path: str) -> list[tuple[Optional[str], str]]:
    """Returns (split, path) of the tables of a directory; the split is None where only rows can name it."""
    if not files.is_directory(path):
        return [(layout.split_in(os.path.basename(path)), path)]
    names = files.list_names(path)
    tables = [name for name in names if name.lower().endswith((".csv", ".tsv")) and not name.startswith(".")]
    found = _find_splits(path, tables) or layout.find_lists(path, _METADATA, None)
    if not found and len(tables) == 1:
        found = [(None, os.path.join(path, tables[0]))]
    if not found:
        raise errors.UserError(
            f"{path}: tables are {', '.join(tables[:5]) or 'missing'}, expected train.csv or train.tsv (and "
            "dev or valid, test), metadata.csv or .jsonl, train/metadata.csv, or a single table; pass their "
            "directory or one table itself."
        )
    return found


def _find_splits(directory: str, tables: list[str]) -> list[tuple[Optional[str], str]]:
    """Finds train.csv, or where a split has none of that name, the tables with it in their names."""
    found = []
    for split in manifest.SPLITS:
        exact = [name for name in tables if layout.split_of(os.path.splitext(name)[0]) == split]
        others = [name for name in tables if layout.split_in(name) == split]
        found += [(split, os.path.join(directory, name)) for name in exact or others]
    return found
