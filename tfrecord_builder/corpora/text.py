"""Text for the language model: {train,dev,test}.tsv with the columns hanzi and pinyin, a sentence per line.

    hanzi       pinyin
    我们试试看  wo3 men5 shi4 shi4 kan4

A sentence is named <split>-<line>. The registry prefixes the directory's name and makes it the speaker, so
that error rates can be reported per corpus.

dict.txt is a word list, as in the package jieba: a word, then its frequency and part of speech, which are not
used. Words of two or more hanzi become sentences of train.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, rows, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_WORDS = "dict.txt"
_WORD = re.compile("[\u4e00-\u9fff]{2,}")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the sentences of those files that exist, also as valid.tsv and the like; then the words."""
    names = files.list_names(corpus_dir)
    tables = layout.named_splits(names, ".tsv")
    if not tables and _WORDS not in names:
        raise errors.UserError(
            f"{corpus_dir}: text corpus is missing, expected train.tsv (and dev or valid, test) with the "
            "columns hanzi and pinyin, or dict.txt; pass the directory that holds them."
        )
    for split, name in tables:
        for where, row in rows.read_table(os.path.join(corpus_dir, name), rows.SENTENCES):
            utterance_id = f"{split}-{where.split()[-1]}"
            yield manifest.Utterance(utterance_id, None, "", row["text"], row["pinyin"], split)
    if _WORDS in names:
        yield from _list_words(os.path.join(corpus_dir, _WORDS))


def _list_words(path: str) -> Iterator[manifest.Utterance]:
    words = [(line.split() or [""])[0] for line in text_files.read_lines(path)]
    if not any(map(_WORD.fullmatch, words)):
        raise errors.UserError(
            f"{path}: no line begins with a word of two or more hanzi, expected a word list such as jieba's; "
            "remove it if it is something else."
        )
    for number, word in enumerate(words, start=1):
        if _WORD.fullmatch(word):
            yield manifest.Utterance(f"word-{number}", None, "", word, "", "train")
