"""The manifest: what a corpus is to the builder, and the tab separated file that says it.

Two lines of a file (UTF-8, one header line, no quoting; columns are found by name):

    id      audio            speaker  text      pinyin                split  seconds  note
    w00002  audio/00002.mp3  yuetan   一下      yi1 xia4              train  1.150
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence

from tfrecord_builder import errors

SPLITS = ("train", "dev", "test")


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


def read_lines(path: str, remedy: str = "see BUILD.md for the layout") -> list[str]:
    """Reads a text file of a corpus.

    Args:
      path: the file, UTF-8; a byte order mark is ignored.
      remedy: what a message tells the user to do where the file cannot be read.

    Returns:
      The lines without their ends, which may be those of any system.

    Raises:
      UserError: there is no such file, it is none that can be read, or it is not UTF-8.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().split("\n")  # at once, so that an error counts its bytes from the beginning
    except FileNotFoundError:
        raise errors.UserError(f"{path}: there is no such file, expected one; {remedy}.") from None
    except OSError as error:
        raise errors.UserError(
            f"{path}: it cannot be read ({error.strerror}), expected a text file; {remedy}."
        ) from error
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"{path}: byte {error.start} is not UTF-8, expected only that; save the file as UTF-8."
        ) from None
    return lines if lines[-1] else lines[:-1]


def read_table(path: str, required: Sequence[str]) -> list[dict[str, str]]:
    """Reads a tab separated file with a header line.

    Args:
      path: the file; a byte order mark and carriage returns are ignored, and so are empty lines.
      required: columns that must be there.

    Returns:
      One dict a line, column to value, plus "line" (its number in the file). Missing trailing columns are
        empty.

    Raises:
      UserError: the file cannot be read, a column is missing, or a line has more columns than the header.
    """
    lines = read_lines(path)
    columns = lines[0].split("\t") if lines else []
    missing = [column for column in required if column not in columns]
    if missing:
        raise errors.UserError(
            f"{path}: its header line has {_list(columns)}, expected also {_list(missing)}; "
            "name the columns in the first line, parted by tabs."
        )
    return [_split_line(path, i, line, columns) for i, line in enumerate(lines[1:], 2) if line.strip()]


def read_manifest(path: str) -> list[Utterance]:
    """Reads a manifest; audio paths come back relative to where the manifest was named from.

    Needed columns: id, audio, and text or pinyin. A missing split is "train"; speaker may be missing too.

    Raises:
      UserError: the file or a line of it is not as described, or an id is given twice.
    """
    rows = read_table(path, ("id", "audio"))
    if rows and "text" not in rows[0] and "pinyin" not in rows[0]:
        raise errors.UserError(
            f"{path}: it has neither a column text nor pinyin, expected one; add the transcripts."
        )
    utterances = [_to_utterance(path, row) for row in rows]
    check_unique(path, utterances)
    return utterances


def write_manifest(path: str, utterances: Iterable[Utterance]) -> None:
    """Writes a manifest that read_manifest reads back; audio paths are written relative to it."""
    here = os.path.dirname(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write("id\taudio\tspeaker\ttext\tpinyin\tsplit\n")
        for u in utterances:
            audio = os.path.relpath(u.audio, here or ".")
            file.write("\t".join((u.utterance_id, audio, u.speaker, u.text, u.pinyin, u.split)) + "\n")


def check_unique(where: str, utterances: Iterable[Utterance]) -> None:
    """Raises UserError if two utterances share an id."""
    seen = set()
    for utterance in utterances:
        if utterance.utterance_id in seen:
            raise errors.UserError(
                f"{where}: the utterance id {utterance.utterance_id} is there twice, expected once; "
                "give every utterance, in all the directories together, an id of its own."
            )
        seen.add(utterance.utterance_id)


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
    split = row.get("split", "").strip() or "train"
    utterance_id, audio = row["id"].strip(), row["audio"].strip()
    if split not in SPLITS:
        raise errors.UserError(
            f"{path}: line {row['line']}: split is {split}, expected {_list(SPLITS)}; mend the line."
        )
    if not utterance_id or not audio:
        raise errors.UserError(
            f"{path}: line {row['line']}: id or audio is empty, expected both; mend the line."
        )
    return Utterance(
        utterance_id=utterance_id,
        audio=os.path.join(os.path.dirname(path), audio),
        speaker=row.get("speaker", "").strip(),
        text=row.get("text", ""),
        pinyin=row.get("pinyin", ""),
        split=split,
    )


def _list(words: Iterable[str]) -> str:
    return ", ".join(words) or "nothing"
