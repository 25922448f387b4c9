"""Reads corpora that consist of tables: manifest.tsv, other tables, Common Voice, LJSpeech, text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, rows, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

# Your own recordings: manifest.tsv, whose columns are recognised by name. id, audio, and text or pinyin are
# required; an empty split means train.
#
#     id      audio            speaker  text      pinyin                split  seconds  note
#     w00002  audio/00002.mp3  yuetan   一下      yi1 xia4              train  1.150


def list_manifest(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances in corpus_dir/manifest.tsv."""
    path = os.path.join(corpus_dir, manifest.MANIFEST_FILE)
    if not files.exists(path) and (others := _list_tables(corpus_dir)):
        raise errors.UserError(
            f"{path}: file does not exist; pass --corpus=table to read {errors.list_examples(others)}."
        )
    for where, row in rows.read_table(path, (("id",), *rows.RECORDINGS)):
        yield rows.make_utterance(where, path, row, "train")


# Common Voice in any language (commonvoice.mozilla.org): cv-corpus-<release>/<language>/{train,dev,test}.tsv
# and clips/*.mp3. The release defines the splits, which share no speakers. validated.tsv (a superset of
# the splits), other.tsv and invalidated.tsv are not read. In releases from 2019, paths lack the suffix .mp3.
#
#     client_id	path	sentence	up_votes	down_votes	age	gender	...
#     9f3c...	common_voice_zh-CN_18524189.mp3	...	2	0	...


def list_common_voice(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of train.tsv, dev.tsv and test.tsv, if they exist."""
    remedy = "pass the directory of one language, cv-corpus-<release>/<language>"
    names = {split: f"{split}.tsv" for split in manifest.SPLITS}
    names = {split: name for split, name in names.items() if files.exists(os.path.join(corpus_dir, name))}
    if not names:
        raise errors.UserError(
            f"{corpus_dir}: found none of Common Voice's tables train.tsv, dev.tsv and test.tsv; {remedy}."
        )
    layout.require(corpus_dir, (*names.values(), "clips"), "Common Voice", remedy)
    for split, name in names.items():
        path = os.path.join(corpus_dir, name)
        for where, row in rows.read_table(path):
            clip = row["audio"].strip()
            clip += "" if os.path.splitext(clip)[1] else ".mp3"
            row.update(id=layout.recording_id(clip), audio=os.path.join("clips", clip))
            yield rows.make_utterance(where, path, row, split)


# LJSpeech (keithito.com/LJ-Speech-Dataset) and corpora with the same layout: wavs/*.wav and metadata.csv,
# which has neither a header nor quotes. Its columns are id, transcript, and often a normalised transcript
# (numbers and abbreviations spelled out), which is preferred. All lines have one speaker and are in train.
#
#     LJ001-0007|the earliest book printed with movable types, about 1455,|..., about fourteen fifty-five,


def list_ljspeech(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every line in metadata.csv."""
    remedy = "pass the directory that contains metadata.csv and wavs, such as LJSpeech-1.1"
    layout.require(corpus_dir, ("metadata.csv", "wavs"), "LJSpeech", remedy)
    path = os.path.join(corpus_dir, "metadata.csv")
    for number, line in enumerate(text_files.read_lines(path, remedy), 1):
        if not line.strip():
            continue
        name, *texts = line.split("|")
        if not 1 <= len(texts) <= 2:
            raise errors.UserError(
                f"{path}: line {number} has {len(texts) + 1} columns, expected 2 or 3 separated by |; fix "
                "the line or, if the table has a header, use --corpus=table."
            )
        audio = os.path.join(corpus_dir, "wavs", f"{name.strip()}.wav")
        text = next(filter(str.strip, reversed(texts)), "")
        yield manifest.Utterance(name.strip(), audio, "LJ", text, "", "train")


# Tables with a header line and one row per utterance. The directory contains train, dev and test (or other
# names for these splits) as .csv or .tsv, or Hugging Face's metadata.csv or metadata.jsonl (also in train/,
# validation/ and test/), or a single table with any name. A table can be passed instead of its directory.
#
#     id,audio,text,speaker
#     u1,wav/u1.wav,"今天,天气很好",s1
#
# A SpeechBrain .json file must itself be passed instead of its directory, which is used as data_root:
#
#     {"u1": {"wav": "{data_root}/wav/u1.wav", "spk_id": "s1", "words": "今天天气很好"}, ...}
_METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")  # names in Hugging Face's AudioFolder


def list_table(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances from the tables in a directory, or from a single table."""
    for split, path in _find_tables(corpus_dir):
        for where, row in _read_rows(path):
            yield rows.make_utterance(where, path, row, split)


def _read_rows(path: str) -> Iterator[tuple[str, rows.Row]]:
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in (".json", ".jsonl"):
        yield from rows.read_table(path)
        return
    reader = json_lines.read_named_objects if suffix == ".json" else json_lines.read_objects
    for where, fields in reader(path):
        yield where, rows.read_object(where, fields)


def _list_tables(directory: str) -> list[str]:
    names = files.list_names(directory)
    return [name for name in names if name.lower().endswith((".csv", ".tsv")) and not name.startswith(".")]


def _find_tables(path: str) -> list[tuple[Optional[str], str]]:
    """Returns (split, path) for each table of a directory or file; split is None if the rows specify it."""
    if not files.is_directory(path):
        return [(layout.split_in(os.path.basename(path)), path)]
    tables = _list_tables(path)
    lists = _find_splits(path, tables) or layout.find_lists(path, _METADATA, None)
    if not lists and len(tables) == 1:
        lists = [(None, os.path.join(path, tables[0]))]
    if not lists:
        raise errors.UserError(
            f"{path}: found {', '.join(tables[:5]) or 'no tables'}, expected train.csv or train.tsv "
            "(optionally with dev or valid, and test), metadata.csv or metadata.jsonl, train/metadata.csv, "
            "or a single table; pass the directory that contains the tables, or the path of one table."
        )
    return lists


def _find_splits(directory: str, tables: list[str]) -> list[tuple[Optional[str], str]]:
    """Finds train.csv or, if it is missing, all tables with train in their names; dev and test likewise."""
    lists = []
    for split in manifest.SPLITS:
        exact = [name for name in tables if layout.split_of(os.path.splitext(name)[0]) == split]
        others = [name for name in tables if layout.split_in(name) == split]
        lists += [(split, os.path.join(directory, name)) for name in exact or others]
    return lists


# Text for the language model: {train,dev,test}.tsv. Sentences get the ids <split>-<line>; the registry
# prepends the directory's name and uses it as the speaker, so that error rates can be reported per corpus.
# dict.txt is a word list like that of the jieba package: each line begins with a word, and words of two or
# more hanzi become sentences in train.
#
#     hanzi       pinyin
#     我们试试看  wo3 men5 shi4 shi4 kan4
_WORDS = "dict.txt"
_WORD = re.compile("[\u4e00-\u9fff]{2,}")


def list_text(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the sentences in train.tsv, dev.tsv (or valid.tsv, ...) and test.tsv, then words in dict.txt."""
    tables, words = layout.find_split_files(corpus_dir, ".tsv"), os.path.join(corpus_dir, _WORDS)
    has_words = files.exists(words)
    if not tables and not has_words:
        raise errors.UserError(
            f"{corpus_dir}: found no text corpus, expected train.tsv (or dev, valid, test) with the columns "
            "hanzi and pinyin, or dict.txt; pass the directory that contains these files."
        )
    for split, path in tables:
        for where, row in rows.read_table(path, rows.SENTENCES):
            utterance_id = f"{split}-{where.split()[-1]}"
            yield manifest.Utterance(utterance_id, None, "", row["text"], row["pinyin"], split)
    if has_words:
        yield from _list_words(words)


def _list_words(path: str) -> Iterator[manifest.Utterance]:
    words = [(line.split() or [""])[0] for line in text_files.read_lines(path)]
    if not any(map(_WORD.fullmatch, words)):
        raise errors.UserError(
            f"{path}: no line begins with a word of two or more hanzi, so the file is not a word list "
            "like jieba's; remove the file."
        )
    for number, word in enumerate(words, start=1):
        if _WORD.fullmatch(word):
            yield manifest.Utterance(f"word-{number}", None, "", word, "", "train")
