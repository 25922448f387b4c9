"""Text for the language model: {train,dev,test}.tsv with the columns hanzi and pinyin, a sentence per line.

    hanzi       pinyin
    我们试试看  wo3 men5 shi4 shi4 kan4

A sentence is named <split>-<line>. The registry prefixes the directory's name and makes it the speaker, so
that error rates can be reported per corpus.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import columns, layout, rows


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the sentences of those files that exist, also as valid.tsv and the like."""
    found = layout.named_splits(files.list_names(corpus_dir), ".tsv")
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: text corpus is missing, expected train.tsv (and dev or valid, test) with the "
            "columns hanzi and pinyin; pass the directory that holds them."
        )
    for split, name in found:
        for where, row in rows.read_table(os.path.join(corpus_dir, name), columns.SENTENCES):
            utterance_id = f"{split}-{where.split()[-1]}"
            yield manifest.Utterance(utterance_id, None, "", row["text"], row["pinyin"], split)
