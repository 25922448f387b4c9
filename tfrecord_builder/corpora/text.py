"""Text for the language model: {train,dev,test}.tsv with the columns hanzi and pinyin, a sentence a line.

    hanzi       pinyin
    我们试试看  wo3 men5 shi4 shi4 kan4

A sentence is named <split>-<line> here. The registry puts the directory's name before it and makes it the
speaker, so that scores can be told apart by corpus.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import layout


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the sentences of whichever of the files there are, also as valid.tsv and the like."""
    found = layout.named_splits(files.list_names(corpus_dir), ".tsv")
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: it holds no text corpus, expected train.tsv (and dev or valid, test) with "
            "the columns hanzi and pinyin; pass the directory that holds them."
        )
    for split, name in found:
        for row in manifest.read_table(os.path.join(corpus_dir, name), ("hanzi", "pinyin")):
            yield manifest.Utterance(f"{split}-{row['line']}", None, "", row["hanzi"], row["pinyin"], split)
