"""Rows of a list of utterances: lines of a table, or JSON objects, whose columns have the names of NAMES."""

from __future__ import annotations

import csv
import functools
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, segments, text_files
from tfrecord_builder.data import manifest

# As DeepSpeech, SpeechBrain, Coqui, Common Voice, NeMo, WeNet and Hugging Face's datasets name them, in lower
# case with underscores. A column of the first name takes precedence over the others.
NAMES = {
    "id": ("id", "utterance_id", "utt_id", "uttid", "utt", "key"),
    "audio": (
        *("audio", "audio_path", "audio_file", "audio_filepath", "path", "file", "file_name", "filename"),
        *("file_path", "filepath", "wav", "wav_path", "wav_file", "wav_filename"),
    ),
    "text": ("text", "transcript", "transcription", "sentence", "txt", "wrd", "words", "hanzi"),
    "pinyin": ("pinyin",),
    "speaker": ("speaker", "speaker_id", "speaker_name", "spk", "spk_id", "client_id"),
    "split": ("split", "subset"),
    **segments.NAMES,
}
# Required columns: one of each tuple.
RECORDINGS = (("audio",), ("text", "pinyin"))
SENTENCES = (("text",), ("pinyin",))

Row = dict[str, str]  # by NAMES
TABS = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
_SPEECHBRAIN = {"ID", "duration", "wav"}  # in every CSV of SpeechBrain; some have audio_path too
_DATA_ROOT = "{data_root}/"  # in SpeechBrain's JSON; its recipes say which directory that is


def read_table(
    path: str,
    needed: Sequence[tuple[str, ...]] = RECORDINGS,
    formats: Sequence[dict[str, Any]] = (TABS,),
) -> Iterator[tuple[str, Row]]:
    """Reads a table with a header line.

    Args:
        path: the file; empty lines are ignored, missing trailing values are empty.
        needed: see RECORDINGS.
        formats: options of csv.reader; the first with which the header has the needed columns is used.

    Yields:
        (where, row) per line; where is "<file>: line <number>".

    Raises:
        errors.UserError: the file cannot be read, lacks a column, or a line has more values than columns.
    """
    lines = (f"{line}\n" for line in text_files.read_lines(path))
    first = next(lines, "")
    options = next((each for each in formats if _has_columns(first, each, needed)), formats[0])
    reader = csv.reader(itertools.chain([first], lines), **options)
    try:
        header = next(reader, [])
        _check_columns(path, header, needed)
        for values in reader:
            if any(map(str.strip, values)):
                where = f"{path}: line {reader.line_num}"
                yield where, _read_row(where, header, values)
    except csv.Error as error:
        raise errors.UserError(
            f"{path}: line {reader.line_num} is not valid CSV ({error}), expected quotes as Python's csv "
            "module writes them; fix the line."
        ) from error


def read_object(where: str, fields: dict[str, Any], needed: Sequence[tuple[str, ...]] = RECORDINGS) -> Row:
    """Returns the row of a JSON object.

    Raises errors.UserError if a needed field is missing, or one that is read is neither text nor a number.
    """
    _check_columns(where, list(fields), needed)
    return _read_row(where, list(fields), [_to_text(where, fields, name) for name in fields])


def make_utterance(where: str, path: str, row: Row, split: Optional[str] = None) -> manifest.Utterance:
    """Returns the utterance that a row describes.

    Args:
        where: the start of every message, as of `read_table`.
        path: the file that has the row; relative audio paths are relative to it (layout.resolve).
        row: without an id it is <file>-<line>-<recording>, such as train-2-u1.
        split: of the file; None for the first folder of the audio path if that names a split, or else train.
            A column split takes precedence.

    Raises:
        errors.UserError: the id, the audio path, the split or the segment is missing or not valid.
    """
    name = row["audio"].strip().removeprefix(_DATA_ROOT)
    audio = layout.resolve(os.path.dirname(path), name)
    if "id" in row:
        utterance_id = row["id"].strip()
    else:
        utterance_id = f"{layout.recording_id(path)}-{where.split()[-1]}-{layout.recording_id(audio)}"
    if not utterance_id or not name:
        raise errors.UserError(f"{where}: id or audio is empty, expected both; fix the line.")
    if row.get("split", "").strip():
        split = layout.require_split(where, row["split"])
    return manifest.Utterance(
        utterance_id=utterance_id,
        audio=audio,
        speaker=row.get("speaker", "").strip(),
        text=row.get("text", ""),
        pinyin=row.get("pinyin", ""),
        split=split or layout.split_of(name.split("/")[0]) or "train",
        **segments.read(where, row)._asdict(),
    )


@functools.lru_cache(maxsize=1 << 10)
def _find_columns(header: tuple[str, ...]) -> dict[str, list[int]]:
    """Returns the column indices of each of NAMES that a header has, in any case."""
    words = [re.sub(r"[\s-]+", "_", word.strip().lower()) for word in header]
    columns = {}
    for name, names in NAMES.items():
        accepted = names[:1] if names[0] in words else names
        columns[name] = [i for i, word in enumerate(words) if word in accepted]
    if _SPEECHBRAIN <= {word.strip() for word in header}:
        columns["audio"] = [words.index("wav")]
    return {name: indices for name, indices in columns.items() if indices}


def _find_missing(header: Sequence[str], needed: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [names for names in needed if not set(names) & set(_find_columns(tuple(header)))]


def _has_columns(line: str, options: dict[str, Any], needed: Sequence[tuple[str, ...]]) -> bool:
    try:
        return not _find_missing(next(csv.reader([line], **options), []), needed)
    except csv.Error:
        return False


def _check_columns(where: str, header: Sequence[str], needed: Sequence[tuple[str, ...]]) -> None:
    missing = _find_missing(header, needed)
    if missing:
        choices = [" or ".join(f"{name} ({', '.join(NAMES[name])})" for name in names) for names in missing]
        raise errors.UserError(
            f"{where}: columns are {', '.join(header) or 'missing'}, expected also {' and '.join(choices)}; "
            "name the columns in the first line."
        )


def _read_row(where: str, header: Sequence[str], values: Sequence[str]) -> Row:
    """Returns the values by NAMES; of several columns for one name, the one that is not empty."""
    if len(values) > len(header):
        raise errors.UserError(
            f"{where} has {len(values)} values, expected {len(header)}; quote its values or name the columns "
            "in the first line."
        )
    row = {}
    for name, indices in _find_columns(tuple(header)).items():
        filled = [values[i] for i in indices if i < len(values) and values[i].strip()]
        if len(set(map(_to_comparable, filled))) > 1:
            raise errors.UserError(
                f"{where}: several columns for {name} have {' and '.join(map(repr, filled[:2]))}, "
                f"expected one ({', '.join(NAMES[name])}) or equal values; rename the others."
            )
        row[name] = filled[0] if filled else ""
    return row


def _to_comparable(value: str) -> object:
    try:
        return float(value)
    except ValueError:
        return value.strip()


def _to_text(where: str, fields: dict[str, Any], name: str) -> str:
    if isinstance(fields[name], float) or not _find_columns((name,)):  # an ignored field may be anything
        return repr(fields[name])
    return json_lines.get_text(where, fields, name, "")
