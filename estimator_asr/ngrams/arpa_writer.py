"""Writes an n-gram model as ARPA text, compressed if the name ends with .gz.

The format is that of SRILM's ngram-format(5): log10 probability, words separated by spaces, log10 back-off
weight unless it is 0, separated by tabs.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator

import numpy as np

from estimator_asr.ngrams import model
from tfrecord_builder.storage import files


def write(ngram_model: model.NgramModel, path: str) -> None:
    """Writes a model, complete or not at all; the same model makes the same bytes."""
    with files.writing(path) as temporary, open(temporary, "wb") as file:
        if not path.endswith(".gz"):
            return _write_lines(file, _lines(ngram_model))
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as compressed:
            _write_lines(compressed, _lines(ngram_model))


def _write_lines(file, lines: Iterable[str]) -> None:
    for line in lines:
        file.write(f"{line}\n".encode())


def _lines(ngram_model) -> Iterator[str]:
    yield "\\data\\"
    yield from (f"ngram {n}={len(each.words)}" for n, each in enumerate(ngram_model.orders, start=1))
    for n, each in enumerate(ngram_model.orders, start=1):
        yield ""
        yield f"\\{n}-grams:"
        yield from _ngram_lines(ngram_model.words, each)
    yield ""
    yield "\\end\\"


def _ngram_lines(words, ngrams) -> Iterator[str]:
    to_log10 = 1 / np.log(10)
    columns = (ngrams.log_probs * to_log10, ngrams.words, ngrams.back_offs * to_log10)
    for log_prob, ids, back_off in zip(*(column.tolist() for column in columns)):
        line = f"{log_prob:.7g}\t{' '.join([words[index] for index in ids])}"
        yield f"{line}\t{back_off:.7g}" if back_off else line
