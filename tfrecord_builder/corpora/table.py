"""Tables with named columns: {train,dev,test}.csv or .tsv with a header line; two lines of train.csv:

    id,audio,text,speaker
    u1,wav/u1.wav,"今天,天气很好",s1

CSV is read as Python's csv module does by default, strictly; TSV is parted by tabs alone, without quoting.
Columns are found by these names:

    id        id, utterance_id         without it <file>-<line>-<recording>, such as train-2-u1
    audio     audio, path, wav_filename, audio_filepath; from the table's directory, absolute, or a URL
    text      text, transcript, sentence
    pinyin    pinyin                   text or pinyin must be there
    speaker   speaker, client_id
    split     split                    where it is filled in it goes before the name of the file

Other columns are ignored; two columns for one thing are refused.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import layout

_COLUMNS = {
    "id": ("id", "utterance_id"),
    "audio": ("audio", "path", "wav_filename", "audio_filepath"),
    "text": ("text", "transcript", "sentence"),
    "pinyin": ("pinyin",),
    "speaker": ("speaker", "client_id"),
    "split": ("split",),
}
_FORMATS = {".csv": {"strict": True}, ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE}}


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of whichever of the six files there are."""
    names = [(split, f"{split}{suffix}") for split in manifest.SPLITS for suffix in _FORMATS]
    found = [(split, name) for split, name in names if files.exists(os.path.join(corpus_dir, name))]
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: it has no table, expected train.csv or train.tsv (and dev, test); "
            "pass the directory that holds them."
        )
    for split, name in found:
        path = os.path.join(corpus_dir, name)
        for where, row in _read_rows(path):
            yield _make_utterance(where, path, row, split)


def _read_rows(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (where, the values by the names of _COLUMNS) for every line after the header."""
    rows = _read_values(path)
    _, header = next(rows, ("", []))
    places = _find_columns(path, [name.strip() for name in header])
    for where, values in rows:
        if len(values) > len(header):
            raise errors.UserError(
                f"{where} has {len(values)} columns, expected {len(header)}; quote its values or name the "
                "columns in the first line."
            )
        values += [""] * (len(header) - len(values))
        yield where, {name: values[place] for name, place in places.items()}


def _read_values(path: str) -> Iterator[tuple[str, list[str]]]:
    lines = (f"{line}\n" for line in manifest.read_lines(path))
    reader = csv.reader(lines, **_FORMATS[os.path.splitext(path)[1]])
    try:
        for values in reader:
            if values:
                yield f"{path}: line {reader.line_num}", values
    except csv.Error as error:
        raise errors.UserError(
            f"{path}: line {reader.line_num} is no CSV ({error}), expected quotes as Python's csv module "
            "writes them; mend the line."
        ) from error


def _find_columns(path: str, header: list[str]) -> dict[str, int]:
    """Gives the place of each column that is there, by the names of _COLUMNS."""
    found = {name: [i for i, each in enumerate(header) if each in _COLUMNS[name]] for name in _COLUMNS}
    for name, places in found.items():
        if len(places) > 1:
            raise errors.UserError(
                f"{path}: {' and '.join(header[i] for i in places)} are both a column for {name}, expected "
                "one of them; rename the other."
            )
    if not found["audio"] or not (found["text"] or found["pinyin"]):
        raise errors.UserError(
            f"{path}: its header line has {', '.join(header) or 'nothing'}, expected audio, and text or "
            "pinyin; name the columns in the first line."
        )
    return {name: places[0] for name, places in found.items() if places}


def _make_utterance(where: str, path: str, row: dict[str, str], split: str) -> manifest.Utterance:
    split = row.get("split", "").strip() or split
    audio = layout.resolve(os.path.dirname(path), row["audio"].strip())
    named = f"{layout.recording_id(path)}-{where.split()[-1]}-{layout.recording_id(audio)}"
    utterance_id = row["id"].strip() if "id" in row else named
    if not utterance_id or not row["audio"].strip():
        raise errors.UserError(f"{where}: id or audio is empty, expected both; mend the line.")
    if split not in manifest.SPLITS:
        raise errors.UserError(
            f"{where}: split is {split}, expected {', '.join(manifest.SPLITS)}; mend the line."
        )
    texts = (row.get("speaker", "").strip(), row.get("text", ""), row.get("pinyin", ""))
    return manifest.Utterance(utterance_id, audio, *texts, split)
