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


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the sentences of whichever of the three files there are."""
    paths = [(split, os.path.join(corpus_dir, f"{split}.tsv")) for split in manifest.SPLITS]
    found = [(split, path) for split, path in paths if files.exists(path)]
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: it holds no text corpus, expected train.tsv (and dev.tsv, test.tsv) with "
            "the columns hanzi and pinyin; pass the directory that holds them."
        )
    for split, path in found:
        for row in manifest.read_table(path, ("hanzi", "pinyin")):
            yield manifest.Utterance(f"{split}-{row['line']}", None, "", row["hanzi"], row["pinyin"], split)
