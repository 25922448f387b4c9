"""Tables with named columns, a header line and a row per utterance; two lines of train.csv:

    id,audio,text,speaker
    u1,wav/u1.wav,"今天,天气很好",s1

The files (table_files.py): train, dev and test as .csv or .tsv, or what others call these splits; or Hugging
Face's metadata.csv or metadata.jsonl, here or in train/, validation/, test/; or one table of any name, which
can be passed in place of the directory. A .csv is separated by commas, semicolons or bars, whichever gives
the header its columns, and quoted as Python's csv module does (not with bars); a .tsv has tabs alone.
SpeechBrain's .json is passed itself; data_root is taken to be its own directory:

    {"u1": {"wav": "{data_root}/wav/u1.wav", "spk_id": "s1", "words": "今天天气很好"}, ...}

The columns (table_columns.py) have the names of several projects, in any case; other columns are ignored.
Without an id an utterance is <file>-<line>-<recording>, such as train-2-u1. A column split goes before the
name of the file. start, end, duration (seconds) and channel make an utterance a part of its recording.
With SpeechBrain's stop, start may count samples: the duration then says how many a second.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors, manifest
from tfrecord_builder.corpora import json_lines, layout, segments, table_columns, table_files

_TABS = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
_BARS = {"delimiter": "|", "quoting": csv.QUOTE_NONE}
_COMMAS = {"strict": True, "skipinitialspace": True}
_SEMICOLONS = {"delimiter": ";", **_COMMAS}
_RATES = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000)
_DATA_ROOT = "{data_root}/"  # SpeechBrain's JSON; its recipes say where that is
SAMPLES = "part of a recording that counts samples: give start and end or duration in seconds"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of the tables of a directory, or of a single table."""
    for split, path in table_files.find(corpus_dir):
        rows = _read_objects(path) if path.lower().endswith((".jsonl", ".json")) else _read_rows(path)
        for where, row in rows:
            yield _make_utterance(where, path, row, split)


def _read_rows(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (where, the values by table_columns.NAMES) for every line after the header."""
    rows = _read_values(path)
    _, header = next(rows, ("", []))
    table_columns.check(path, header)
    places = table_columns.find(tuple(header))
    for where, values in rows:
        if len(values) > len(header):
            raise errors.UserError(
                f"{where} has {len(values)} columns, expected {len(header)}; quote its values or name the "
                "columns in the first line."
            )
        values += [""] * (len(header) - len(values))
        yield where, table_columns.read_row(where, places, values)


def _read_values(path: str) -> Iterator[tuple[str, list[str]]]:
    lines = (f"{line}\n" for line in manifest.read_lines(path))
    first = next(lines, "")
    reader = csv.reader(itertools.chain([first], lines), **_find_format(path, first))
    try:
        for values in reader:
            if values:
                yield f"{path}: line {reader.line_num}", values
    except csv.Error as error:
        raise errors.UserError(
            f"{path}: line {reader.line_num} is not valid CSV ({error}), expected quotes as Python's csv "
            "module writes them; fix the line."
        ) from error


def _find_format(path: str, header: str) -> dict[str, Any]:
    """Returns the options of csv.reader with which a header has the columns that are needed."""
    if path.lower().endswith(".tsv"):
        return _TABS
    formats = (_COMMAS, _SEMICOLONS, _BARS, _TABS)
    return next((each for each in formats if _is_header(header, each)), _COMMAS)


def _is_header(line: str, options: dict[str, Any]) -> bool:
    try:
        return table_columns.is_enough(table_columns.find(tuple(next(csv.reader([line], **options), []))))
    except csv.Error:
        return False


def _read_objects(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    is_named = path.lower().endswith(".json")
    found = json_lines.read_named_objects(path) if is_named else json_lines.read_objects(path)
    for where, fields in found:
        table_columns.check(where, list(fields))
        places = table_columns.find(tuple(fields))
        values = [_to_text(where, fields, name) for name in fields]
        yield where, table_columns.read_row(where, places, values)


def _to_text(where: str, fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if isinstance(value, float) or not table_columns.find((name,)):  # what is ignored may be anything
        return repr(value)
    return json_lines.get_text(where, fields, name, "")


def _make_utterance(where: str, path: str, row: dict[str, str], split: Optional[str]) -> manifest.Utterance:
    named = row["audio"].strip().removeprefix(_DATA_ROOT)
    audio = layout.resolve(os.path.dirname(path), named)
    default_id = f"{layout.recording_id(path)}-{where.split()[-1]}-{layout.recording_id(audio)}"
    utterance_id = row["id"].strip() if "id" in row else default_id
    if not utterance_id or not named:
        raise errors.UserError(f"{where}: id or audio is empty, expected both; fix the line.")
    if row.get("split", "").strip():
        split = layout.require_split(where, row["split"])
    span = segments.read(where, row)
    if "start:" in row.get("options", ""):
        span = segments.Span(problem=SAMPLES)
    span = _to_seconds(span, row.get("stop", "").strip())
    return manifest.Utterance(
        utterance_id=utterance_id,
        audio=audio,
        speaker=row.get("speaker", "").strip(),
        text=row.get("text", ""),
        pinyin=row.get("pinyin", ""),
        split=split or layout.split_of(named.split("/")[0]) or "train",
        **dataclasses.asdict(span),
    )


def _to_seconds(span: segments.Span, stop: str) -> segments.Span:
    """Returns a span in seconds if start and stop count samples, as in SpeechBrain's tables.

    The duration says how many a second; without it only a start of 0 is known.
    """
    if not stop or span.problem or (span.seconds is not None and not span.start_seconds):
        return span
    found = []
    if span.seconds and stop.isdecimal():
        rate = (int(stop) - span.start_seconds) / span.seconds
        found = [each for each in _RATES if abs(rate / each - 1) < 0.01]
    if not found:
        return segments.Span(problem=SAMPLES)
    return dataclasses.replace(span, start_seconds=span.start_seconds / found[0])
