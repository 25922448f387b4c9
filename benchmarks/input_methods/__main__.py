"""Measures Debian's input methods on the lines that a language model is measured on.

    apt-get install libpinyin15 libpinyin-data libgooglepinyin0
    apt-get install g++ libimepinyin-dev libimecore-dev libboost-dev libfcitx5utils-dev libime-data
    python -m benchmarks.input_methods wiki/dev.tsv csmsc/dev.tsv

The files have the columns hanzi and pinyin, as for --corpus=text. Each input method is given the pinyin of a
line, and the sentence that it proposes first counts: the table has the character error rate (substituted,
missing and extra hanzi per hanzi of the reference) and the number of errors. Their data have no tones, so
they know less than a language model that reads toned pinyin: libpinyin is given the tones and ignores them,
the others take none. They get separators between syllables (xi'an). libgooglepinyin takes at most 39 letters:
longer lines are entered in parts that overlap by four syllables on both sides.

An input method that is not installed is named on standard error, with its packages; the exit code is 1 only
if none is installed. `make bench` leaves this program out, because its packages are Debian's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import tqdm

from benchmarks.input_methods import peers
from estimator_asr.scoring import edit_distance
from tfrecord_builder import errors
from tfrecord_builder.corpora import rows
from tfrecord_builder.program import program


class Line(NamedTuple):
    """A sentence in hanzi, and its toned syllables, one for each hanzi."""

    hanzi: str
    syllables: list[str]


def main(paths: list[str]) -> int:
    """Prints the table; returns 1 if no input method is installed."""
    if not paths:
        raise errors.UserError("input_methods: no file was passed; pass at least one DEV.tsv")
    files = {path: read(path) for path in paths}
    with tempfile.TemporaryDirectory() as directory:
        methods = open_installed(peers.INPUT_METHODS, directory)
        for path, lines in files.items():
            num_hanzi = sum(len(line.hanzi) for line in lines)
            print(f"{path}: {len(lines):,} lines, {num_hanzi:,} hanzi")
            for name, convert in methods.items():
                num_errors = count_errors(convert, tqdm.tqdm(lines, name, disable=None, leave=False))
                print(f"  {name:16}{100 * num_errors / num_hanzi:6.2f} %{num_errors:8,} errors", flush=True)
    return 0 if methods else 1


def read(path: str) -> list[Line]:
    """Reads the lines of a file.

    Raises:
        errors.UserError: the file cannot be read, lacks a column or lines, or a line does not have as many
            hanzi as syllables.
    """
    lines = [_make_line(where, row) for where, row in rows.read_table(path, rows.SENTENCES)]
    if not lines:
        raise errors.UserError(f"{path} has no sentences below its first line; pass another file.")
    return lines


def _make_line(where: str, row: rows.Row) -> Line:
    line = Line(row["text"], row["pinyin"].split())
    if len(line.hanzi) != len(line.syllables):
        raise errors.UserError(
            f"{where}: {len(line.hanzi)} characters, but {len(line.syllables)} syllables; write one syllable "
            "for each character."
        )
    return line


def open_installed(methods: Mapping[str, peers.InputMethod], directory: str) -> dict[str, peers.Convert]:
    """Opens the input methods that are installed, and names the others on standard error."""
    opened = {}
    for name, method in methods.items():
        try:
            opened[name] = method.open(method.find_files(), directory)
        except errors.UserError as error:
            print(f"{name}: {error}", file=sys.stderr)
    return opened


def count_errors(convert: peers.Convert, lines: Iterable[Line]) -> int:
    """Counts the edits from hypotheses to references; a syllable that has no letters cannot be entered."""
    num_errors = 0
    for line in lines:
        syllables = [syllable for syllable in line.syllables if syllable.replace("ü", "v").isascii()]
        num_errors += edit_distance.count_edits(line.hanzi, convert(syllables) if syllables else "").errors
    return num_errors


if __name__ == "__main__":
    program.run(main, takes_words=True)
