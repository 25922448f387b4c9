"""Rows of a list of utterances: lines of a table or JSON objects, by columns.NAMES, and their utterances."""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import columns, json_lines, layout, segments, text_files
from tfrecord_builder.data import manifest

Row = dict[str, str]
TABS = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
_DATA_ROOT = "{data_root}/"  # in SpeechBrain's JSON; its recipes say which directory that is


def read_table(
    path: str,
    needed: Sequence[tuple[str, ...]] = columns.RECORDINGS,
    formats: Sequence[dict[str, Any]] = (TABS,),
) -> Iterator[tuple[str, Row]]:
    """Reads a table with a header line.

    Args:
        path: the file; empty lines are ignored, missing trailing values are empty.
        needed: see columns.RECORDINGS.
        formats: options of csv.reader; the first with which the header has the needed columns is used.

    Yields:
        (where, values by columns.NAMES) per line; where is "<file>: line <number>".

    Raises:
        errors.UserError: the file cannot be read, lacks a column, or a line has more values than columns.
    """
    lines = (f"{line}\n" for line in text_files.read_lines(path))
    first = next(lines, "")
    options = next((each for each in formats if _has_columns(first, each, needed)), formats[0])
    reader = csv.reader(itertools.chain([first], lines), **options)
    try:
        header = next(reader, [])
        columns.check(path, header, needed)
        for values in reader:
            if any(map(str.strip, values)):
                where = f"{path}: line {reader.line_num}"
                yield where, columns.read_row(where, header, _fill(where, header, values))
    except csv.Error as error:
        raise errors.UserError(
            f"{path}: line {reader.line_num} is not valid CSV ({error}), expected quotes as Python's csv "
            "module writes them; fix the line."
        ) from error


def read_object(
    where: str, fields: dict[str, Any], needed: Sequence[tuple[str, ...]] = columns.RECORDINGS
) -> Row:
    """Returns the fields of a JSON object by columns.NAMES.

    Raises:
        errors.UserError: a needed field is missing, or one that is read is neither text nor a number.
    """
    columns.check(where, list(fields), needed)
    return columns.read_row(where, list(fields), [_to_text(where, fields, name) for name in fields])


def make_utterance(where: str, path: str, row: Row, split: Optional[str] = None) -> manifest.Utterance:
    """Returns the utterance that a row describes.

    Args:
        where: the start of every message, as of `read_table`.
        path: the file that has the row; relative audio paths are relative to it (layout.resolve).
        row: values by columns.NAMES; without an id it is <file>-<line>-<recording>, such as train-2-u1.
        split: of the file; None for the first folder of the audio path if that names a split, or else train.
            A column split takes precedence.

    Raises:
        errors.UserError: the id, the audio path, the split or the segment is missing or not valid.
    """
    named = row["audio"].strip().removeprefix(_DATA_ROOT)
    audio = layout.resolve(os.path.dirname(path), named)
    utterance_id = row["id"].strip() if "id" in row else _make_id(where, path, audio)
    if not utterance_id or not named:
        raise errors.UserError(f"{where}: id or audio is empty, expected both; fix the line.")
    if row.get("split", "").strip():
        split = layout.require_split(where, row["split"])
    return manifest.Utterance(
        utterance_id=utterance_id,
        audio=audio,
        speaker=row.get("speaker", "").strip(),
        text=row.get("text", ""),
        pinyin=row.get("pinyin", ""),
        split=split or layout.split_of(named.split("/")[0]) or "train",
        **segments.read(where, row)._asdict(),
    )


def _make_id(where: str, path: str, audio: str) -> str:
    return f"{layout.recording_id(path)}-{where.split()[-1]}-{layout.recording_id(audio)}"


def _has_columns(line: str, options: dict[str, Any], needed: Sequence[tuple[str, ...]]) -> bool:
    try:
        return not columns.find_missing(next(csv.reader([line], **options), []), needed)
    except csv.Error:
        return False


def _fill(where: str, header: list[str], values: list[str]) -> list[str]:
    if len(values) > len(header):
        raise errors.UserError(
            f"{where} has {len(values)} values, expected {len(header)}; quote its values or name the columns "
            "in the first line."
        )
    return values + [""] * (len(header) - len(values))


def _to_text(where: str, fields: dict[str, Any], name: str) -> str:
    if isinstance(fields[name], float) or not columns.find((name,)):  # an ignored field may be anything
        return repr(fields[name])
    return json_lines.get_text(where, fields, name, "")
