"""LJSpeech, and what copies its layout: metadata.csv and wavs/*.wav.

Layout: keithito.com/LJ-Speech-Dataset. A line of metadata.csv (separated by |, no header, no quoting):
id, transcript, and often a normalised transcript (numbers and abbreviations as read), which takes precedence:

    LJ001-0007|the earliest book printed with movable types, about 1455,|..., about fourteen fifty-five,

There is one speaker and no split: all of it is train.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest

_REMEDY = "pass the directory that has metadata.csv and wavs, as LJSpeech-1.1"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every line of metadata.csv."""
    layout.require(corpus_dir, ("metadata.csv", "wavs"), "LJSpeech", _REMEDY)
    path = os.path.join(corpus_dir, "metadata.csv")
    for number, line in enumerate(text_files.read_lines(path, _REMEDY), 1):
        if not line.strip():
            continue
        name, *texts = line.split("|")
        if not 1 <= len(texts) <= 2:
            raise errors.UserError(
                f"{path}: line {number} has {len(texts) + 1} columns, expected 2 or 3 separated by |; fix "
                "the line, or read tables that have a header with --corpus=table."
            )
        audio = os.path.join(corpus_dir, "wavs", f"{name.strip()}.wav")
        text = next(filter(str.strip, reversed(texts)), "")
        yield manifest.Utterance(name.strip(), audio, "LJ", text, "", "train")
