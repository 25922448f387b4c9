"""Anyone's own recordings: manifest.tsv; its first lines (columns are found by name, no quoting):

    id      audio            speaker  text      pinyin                split  seconds  note
    w00002  audio/00002.mp3  yuetan   一下      yi1 xia4              train  1.150

Needed are id, audio, and text or pinyin. An empty split is train. start, end or duration (in seconds) and
channel select a segment (segments.py). Other columns, such as seconds and note, are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder.corpora import columns, rows
from tfrecord_builder.data import manifest


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of corpus_dir/manifest.tsv."""
    path = os.path.join(corpus_dir, manifest.MANIFEST_FILE)
    for where, row in rows.read_table(path, (("id",), *columns.RECORDINGS)):
        yield rows.make_utterance(where, path, row, "train")
