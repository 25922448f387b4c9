"""Reads rows of utterance lists: lines of tables, or JSON objects. NAMES lists the accepted column names."""

from __future__ import annotations

import csv
import functools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, segments, text_files
from tfrecord_builder.data import manifest

# Column names used by DeepSpeech, SpeechBrain, Coqui, Common Voice, NeMo, WeNet, Hugging Face's datasets and
# spreadsheets, in lower case with underscores. The first name in a list takes precedence.
NAMES = {
    "id": "id utterance_id utt_id uttid utt key 编号 序号 音频编号".split(),
    "audio": (
        "audio audio_path audio_file audio_filepath path file file_name filename file_path filepath wav "
        "wav_path wav_file wav_filename 音频 音频文件 音频路径 文件 文件名 文件路径 路径 录音 录音文件 "
        "录音文件名 语音"
    ).split(),
    "text": (
        "text transcript transcription sentence txt wrd words hanzi 文本 文本内容 文字 汉字 内容 句子 转写 "
        "转写文本 转录 转录文本 标注"
    ).split(),
    "pinyin": ["pinyin", "拼音"],
    "speaker": "speaker speaker_id speaker_name spk spk_id client_id 说话人 说话人编号 发音人 录音人".split(),
    "split": "split subset 划分 数据划分 分割 子集 数据集 集合 用途".split(),
    **segments.NAMES,
}
# Required columns: at least one from each tuple.
RECORDINGS = (("audio",), ("text", "pinyin"))
SENTENCES = (("text",), ("pinyin",))

Row = dict[str, str]  # key in NAMES -> value
Needed = Sequence[tuple[str, ...]]  # required columns, such as RECORDINGS
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
_SPEECHBRAIN = {"ID", "duration", "wav"}  # columns in every SpeechBrain CSV; some also have audio_path
_SECONDS = re.compile(r"[(（](?:秒|s)[)）]\s*$")  # the unit in column names such as 时长(秒)
_DATA_ROOT = "{data_root}/"  # SpeechBrain's recipes replace this prefix of a path in JSON with a directory


def read_table(path: str, needed: Needed = RECORDINGS) -> Iterator[tuple[str, Row]]:
    """Reads a table with a header line; chooses the separator that yields the most known column names.

    Yields (where, row) for each line that is not empty; `where` is "<file>: line <number>". Values missing at
    the end of a line count as empty. Values after the last column must be empty.

    Raises errors.UserError if the file cannot be read or lacks a column, or a line has too many values, an
    empty id or audio, values that contradict each other, or a quoted value that ends on another line.
    """
    lines = enumerate(text_files.read_lines(path), 1)
    _, first = next(lines, (1, ""))
    bare = first.replace('"', "")
    separator = max(_SEPARATORS, key=lambda mark: len(_find_columns(tuple(bare.split(mark)))))
    header = _split(f"{path}: line 1", first, separator, first)
    remedy = "name the columns in the first line, separated by tabs, commas, semicolons or vertical bars"
    _check_columns(path, header, needed, remedy)
    for number, line in lines:
        where = f"{path}: line {number}"
        values = _split(where, line, separator, first)
        if any(map(str.strip, values)):
            yield where, _read_row(where, header, values, needed, separator)


def _split(where: str, line: str, separator: str, header: str) -> list[str]:
    """Splits a line; with tabs or vertical bars, quotes are literal unless the header contains quotes too."""
    if separator in "\t|" and '"' not in header:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True, skipinitialspace=True), [])
    except csv.Error as error:
        raise errors.UserError(
            f"{where} is not valid CSV ({error}): a quoted value must end on the same line, and quotes "
            "within it must be doubled; fix the line."
        ) from error


def read_object(where: str, fields: dict[str, Any], needed: Needed = RECORDINGS) -> Row:
    """Converts a JSON object to a row.

    Raises errors.UserError if a required field is missing, or if a known field is neither text nor a number.
    """
    _check_columns(where, list(fields), needed, "add the field")
    return _read_row(where, list(fields), [_to_text(where, fields, name) for name in fields], needed)


def make_utterance(where: str, path: str, row: Row, split: Optional[str] = None) -> manifest.Utterance:
    """Returns the utterance that a row of the file `path` describes; error messages start with `where`.

    Relative audio paths are resolved by layout.resolve. If there is no id column, the id becomes
    <file>-<line>-<recording>, such as train-2-u1. A split column takes precedence over `split`, the split of
    the file. If both are missing, the first folder of the audio path is used if the folder names a split,
    otherwise train. Raises errors.UserError if the split or the segment is invalid.
    """
    name = row["audio"].strip().removeprefix(_DATA_ROOT)
    audio = layout.resolve(os.path.dirname(path), name)
    if "id" in row:
        utterance_id = row["id"].strip()
    else:
        utterance_id = f"{layout.recording_id(path)}-{where.split()[-1]}-{layout.recording_id(audio)}"
    if row.get("split", "").strip():
        split = layout.require_split(where, row["split"])
    return manifest.Utterance(
        utterance_id=utterance_id,
        audio=audio,
        speaker=row.get("speaker", "").strip(),
        text=row.get("text", ""),
        pinyin=row.get("pinyin", ""),
        split=split or layout.split_of(re.split(r"[/\\]", name)[0]) or "train",
        **segments.read(where, row)._asdict(),
    )


@functools.lru_cache(maxsize=1 << 10)
def _find_columns(header: tuple[str, ...]) -> dict[str, list[int]]:
    """Maps each key of NAMES to the indices of its columns in a header; ignores case."""
    words = [re.sub(r"[\s-]+", "_", _SECONDS.sub("", word).strip().lower()) for word in header]
    columns = {}
    for name, names in NAMES.items():
        accepted = names[:1] if names[0] in words else names
        columns[name] = [i for i, word in enumerate(words) if word in accepted]
    if _SPEECHBRAIN <= {word.strip() for word in header}:
        columns["audio"] = [words.index("wav")]
    return {name: indices for name, indices in columns.items() if indices}


def _check_columns(where: str, header: Sequence[str], needed: Needed, remedy: str) -> None:
    missing = [names for names in needed if not set(names) & set(_find_columns(tuple(header)))]
    if missing:
        choices = [" or ".join(f"{name} ({', '.join(NAMES[name])})" for name in names) for names in missing]
        columns = f"{', '.join(header)}, but " if any(header) else ""
        raise errors.UserError(f"{where}: found {columns}no {' and no '.join(choices)}; {remedy}.")


def _read_row(
    where: str, header: Sequence[str], values: Sequence[str], needed: Needed, separator: str = ""
) -> Row:
    """Maps keys in NAMES to values; if a key has several columns, uses any value that is not empty."""
    if any(map(str.strip, values[len(header) :])):
        remedy = "quote values that contain {}" if separator in ",;" else "remove {} from the values"
        raise errors.UserError(
            f"{where} has {len(values)} values, expected {len(header)}; "
            f"{remedy.format(_SEPARATORS[separator])}, or name all columns in the first line."
        )
    row = {}
    for name, indices in _find_columns(tuple(header)).items():
        filled = [values[i] for i in indices if i < len(values) and values[i].strip()]
        if len(set(map(_to_comparable, filled))) > 1:
            raise errors.UserError(
                f"{where}: several columns for {name} have different values, "
                f"{' and '.join(map(repr, filled[:2]))}; use only one of {', '.join(NAMES[name])}."
            )
        row[name] = filled[0] if filled else ""
    if ("audio",) in needed and not all(row[name] for name in ("id", "audio") if name in row):
        separated = separator and f" (values are separated by {_SEPARATORS[separator]})"
        raise errors.UserError(f"{where}: id or audio is empty; fill in both{separated}.")
    return row


def _to_comparable(value: str) -> object:
    try:
        return float(value)
    except ValueError:
        return value.strip()


def _to_text(where: str, fields: dict[str, Any], name: str) -> str:
    if isinstance(fields[name], float) or not _find_columns((name,)):  # ignored fields may have any type
        return repr(fields[name])
    return json_lines.get_text(where, fields, name, "")
