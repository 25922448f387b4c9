"""Common Voice in any language: {train,dev,test}.tsv and clips/*.mp3 of one language.

Layout: the releases of commonvoice.mozilla.org, cv-corpus-<release>/<language>/. First lines of a TSV file
(tabs, no quoting, one header line; columns are found by name, and releases differ in what follows):

    client_id	path	sentence	up_votes	down_votes	age	gender	...
    9f3c...	common_voice_zh-CN_18524189.mp3	...	2	0	...

The speaker is client_id. The splits are the release's own, which share no speaker; validated.tsv, other.tsv
and invalidated.tsv, which contain them or were not checked, are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, rows
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_REMEDY = "pass the directory of one language, cv-corpus-<release>/<language>"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of those of the three files that exist."""
    paths = {split: os.path.join(corpus_dir, f"{split}.tsv") for split in manifest.SPLITS}
    found = {split: path for split, path in paths.items() if files.exists(path)}
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: train.tsv, dev.tsv and test.tsv are missing, expected Common Voice; {_REMEDY}."
        )
    layout.require(corpus_dir, (*(f"{split}.tsv" for split in found), "clips"), "Common Voice", _REMEDY)
    for split, path in found.items():
        for where, row in rows.read_table(path):
            clip = row["audio"].strip()
            named = {**row, "id": layout.recording_id(clip), "audio": clip and os.path.join("clips", clip)}
            yield rows.make_utterance(where, path, named, split)
