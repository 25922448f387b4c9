"""The manifest: what a corpus is to the builder, and the tab separated file that says it.

Two lines of a file (one header line, no quoting; columns are found by name):

    id      audio            speaker  text      pinyin                split  seconds  note
    w00002  audio/00002.mp3  yuetan   一下      yi1 xia4              train  1.150

The columns start (or offset, begin_time, ...), end or duration, in seconds, and channel, from 0, make an
utterance a part of its recording (spans.py). Other columns, such as seconds and note, are ignored.
"""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from absl import logging

from tfrecord_builder import errors, files
from tfrecord_builder.corpora import encodings, layout, segments, table_columns

SPLITS = ("train", "dev", "test")
_MOST_NOTES = 10  # on encodings: some corpora have a file per utterance


@dataclasses.dataclass(frozen=True)
class Utterance:
    """One utterance of a corpus.

    Attributes:
      utterance_id: unique within a build.
      audio: path of the recording; None where the corpus is text alone.
      speaker: whatever tells speakers apart; empty if unknown.
      text: transcript as the corpus writes it.
      pinyin: pronunciation, tokens parted by blanks; empty where the corpus gives none.
      split: "train", "dev" or "test".
      start_seconds: where the utterance begins in the recording.
      seconds: how long it is; None to the end of the recording.
      channel: the channel to take, from 0; None for the mean of all.
      problem: why the utterance must be rejected, as known from the corpus alone; empty: nothing is known.
      speed: how much faster than in the recording it is to be, pitch and all.
      volume_db: how much louder than in the recording it is to be.
    """

    utterance_id: str
    audio: str | None
    speaker: str
    text: str
    pinyin: str
    split: str
    start_seconds: float = 0.0
    seconds: float | None = None
    channel: int | None = None
    problem: str = ""
    speed: float = 1.0
    volume_db: float = 0.0


def read_lines(path: str, remedy: str = "see BUILD.md for the layout") -> Iterator[str]:
    """Reads a text file of a corpus, a line at a time.

    Args:
      path: the file; its encoding is one of encodings.ACCEPTED.
      remedy: what a message tells the user to do where the file cannot be read.

    Yields:
      The lines without their ends, which may be those of any system.

    Raises:
      UserError: there is no such file, it is none that can be read, or it has another encoding.
    """
    try:
        with files.open_binary(path) as file:
            for line in io.TextIOWrapper(file, encoding=_find_encoding(path, file)):
                yield line.removesuffix("\n")
    except FileNotFoundError:
        raise errors.UserError(f"{path}: there is no such file, expected one; {remedy}.") from None
    except OSError as error:
        raise errors.UserError(
            f"{path}: it cannot be read ({error.strerror}), expected a text file; {remedy}."
        ) from error
    except UnicodeDecodeError:
        raise errors.UserError(
            f"{path}: byte {_first_bad_byte(path)} is not UTF-8, expected {encodings.ACCEPTED}; "
            "save the file as UTF-8."
        ) from None


def _find_encoding(path: str, file: BinaryIO) -> str:
    encoding = encodings.find(file) or "utf-8"  # which then fails where it is not
    file.seek(0)
    if not encoding.startswith("utf-8"):
        logging.log_first_n(logging.WARNING, "%s: read as %s", _MOST_NOTES, path, encoding.upper())
    return encoding


def read_table(path: str, required: Sequence[str]) -> Iterator[dict[str, str]]:
    """Reads a tab separated file with a header line.

    Args:
      path: the file; a byte order mark and carriage returns are ignored, and so are empty lines.
      required: columns that must be there.

    Yields:
      One dict a line, column to value, plus "line" (its number in the file). Missing trailing columns are
        empty.

    Raises:
      UserError: the file cannot be read, a column is missing or there twice, or a line has more columns than
        the header.
    """
    lines = read_lines(path)
    header = next(lines, "")
    columns = header.split("\t") if header else []
    missing = [column for column in required if column not in columns]
    if missing:
        raise errors.UserError(
            f"{path}: its header line has {_list(columns)}, expected also {_list(missing)}; "
            "name the columns in the first line, parted by tabs."
        )
    repeated = sorted({column for column in columns if column and columns.count(column) > 1})
    if repeated:
        raise errors.UserError(
            f"{path}: its header line has {_list(repeated)} twice, expected every column once; rename one."
        )
    for number, line in enumerate(lines, 2):
        if line.strip():
            yield _split_line(path, number, line, columns)


def read_manifest(path: str) -> Iterator[Utterance]:
    """Reads a manifest; audio paths come back relative to where it was named from, URLs as they are.

    Needed columns: id, audio, and text or pinyin. A missing split is "train"; the others may be missing too.

    Raises:
      UserError: the file or a line of it is not as described.
    """
    for row in read_table(path, ("id", "audio")):
        if "text" not in row and "pinyin" not in row:
            raise errors.UserError(
                f"{path}: it has neither a column text nor pinyin, expected one; add the transcripts."
            )
        yield _to_utterance(path, row)


def write_manifest(path: str, utterances: Iterable[Utterance]) -> None:
    """Writes a manifest that read_manifest reads back; audio paths are written relative to it."""
    here = os.path.dirname(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write("id\taudio\tspeaker\ttext\tpinyin\tsplit\n")
        for u in utterances:
            audio = os.path.relpath(u.audio, here or ".")
            file.write("\t".join((u.utterance_id, audio, u.speaker, u.text, u.pinyin, u.split)) + "\n")


def _first_bad_byte(path: str) -> int:
    with files.open_binary(path) as file:
        try:
            file.read().decode()
        except UnicodeDecodeError as error:
            return error.start
    return 0


def _split_line(path: str, number: int, line: str, columns: list[str]) -> dict[str, str]:
    values = line.split("\t")
    if len(values) > len(columns):
        raise errors.UserError(
            f"{path}: line {number} has {len(values)} columns, expected {len(columns)}; "
            "take the tabs out of its values or name the columns in the first line."
        )
    row = dict(zip(columns, values + [""] * (len(columns) - len(values))))
    row["line"] = str(number)
    return row


def _to_utterance(path: str, row: dict[str, str]) -> Utterance:
    where = f"{path}: line {row['line']}"
    split = layout.require_split(where, row.get("split", "").strip() or "train")
    utterance_id, audio = row["id"].strip(), row["audio"].strip()
    if not utterance_id or not audio:
        raise errors.UserError(f"{where}: id or audio is empty, expected both; fix the line.")
    span = _read_span(where, row)
    return Utterance(
        utterance_id=utterance_id,
        audio=audio if files.is_remote(audio) else os.path.join(os.path.dirname(path), audio),
        speaker=row.get("speaker", "").strip(),
        text=row.get("text", ""),
        pinyin=row.get("pinyin", ""),
        split=split,
        **dataclasses.asdict(span),
    )


def _read_span(where: str, row: dict[str, str]) -> segments.Span:
    places = table_columns.find(tuple(row))
    part = {name: places[name] for name in segments.NAMES if name in places}
    return segments.read(where, table_columns.read_row(where, part, list(row.values())))


def _list(words: Iterable[str]) -> str:
    return ", ".join(words) or "nothing"
