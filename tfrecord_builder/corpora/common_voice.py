"""Common Voice in any language: {train,dev,test}.tsv and clips/*.mp3 of one language.

Layout: the releases of commonvoice.mozilla.org, cv-corpus-<release>/<language>/. The beginning of a TSV file
(tabs, no quoting, one header line; columns are found by name, and releases differ in what follows):

    client_id	path	sentence	up_votes	down_votes	age	gender	...
    9f3c...	common_voice_zh-CN_18524189.mp3	...	2	0	...

The speaker is client_id. The splits are the release's own, which share no speaker; validated.tsv, other.tsv
and invalidated.tsv, which contain them or were not checked, are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import layout

_REMEDY = "pass the directory of one language, cv-corpus-<release>/<language>"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of whichever of the three files there are."""
    paths = {split: os.path.join(corpus_dir, f"{split}.tsv") for split in manifest.SPLITS}
    found = {split: path for split, path in paths.items() if files.exists(path)}
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: it has no train.tsv, dev.tsv or test.tsv, expected Common Voice; {_REMEDY}."
        )
    layout.require(corpus_dir, (*(f"{split}.tsv" for split in found), "clips"), "Common Voice", _REMEDY)
    for split, path in found.items():
        for row in manifest.read_table(path, ("client_id", "path", "sentence")):
            yield _make_utterance(os.path.join(corpus_dir, "clips"), path, row, split)


def _make_utterance(clips: str, table: str, row: dict[str, str], split: str) -> manifest.Utterance:
    if not row["path"].strip():
        raise errors.UserError(
            f"{table}: line {row['line']}: path is empty, expected the name of a clip; mend the line."
        )
    audio = os.path.join(clips, row["path"].strip())
    utterance_id = layout.recording_id(audio)
    return manifest.Utterance(utterance_id, audio, row["client_id"].strip(), row["sentence"], "", split)
