"""Reads an n-gram model from ARPA text, plain or .gz, as KenLM, SRILM and other tools write it.

    \\data\\
    ngram 1=4
    ngram 2=2

    \\1-grams:
    -99     <s>     -0.30
    -0.60   </s>
    -0.60   ni3     -0.20
    -0.90   hao3

    \\2-grams:
    -0.10   <s> ni3
    -0.20   ni3 hao3

    \\end\\

Lines before \\data\\ are ignored. Fields are separated by tabs or spaces; a missing back-off weight is 0.
"""

from __future__ import annotations

import array
import re
from typing import NamedTuple

import numpy as np

from estimator_asr.ngrams import arpa_lines, model
from tfrecord_builder import errors

_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)")
_OTHER_UNKNOWN = b"<UNK>"  # as KenLM also accepts


def read(path: str) -> model.NgramModel:
    """Reads a model.

    Raises:
        errors.UserError: the file cannot be read, or is not valid (names the line).
    """
    lines = arpa_lines.Lines(path)
    counts = _read_header(lines)
    ids, sections = {}, []
    for order, count in enumerate(counts, start=1):
        sections.append(_read_section(lines, order, count, ids))
        if order == 1:
            _check_marks(lines, ids)
    lines.expect(b"\\end\\")
    made = model.NgramModel(_decode(lines, sections[0], ids), tuple(each.ngrams for each in sections))
    _check_ngrams(lines, sections, made)
    return made._replace(
        orders=made.orders[: max(i for i, each in enumerate(made.orders) if len(each.words)) + 1]
    )


class _Section(NamedTuple):
    """The n-grams of an order, and the line of the first, counted from 0."""

    first: int
    ngrams: model.Ngrams


def _read_header(lines: arpa_lines.Lines) -> list[int]:
    """Returns the number of n-grams of each order, and moves after the header."""
    start = next((i for i, line in enumerate(lines.lines) if line.strip() == b"\\data\\"), None)
    if start is None:
        raise errors.UserError(
            f"{lines.path}: line \\data\\ is missing, expected ARPA text; convert a binary model with the "
            "tool that made it"
        )
    lines.next = start + 1
    counts = []
    while True:
        found = _COUNT.fullmatch(lines.peek())
        if found is None or int(found[1]) != len(counts) + 1:
            break
        counts.append(int(found[2]))
        lines.next += 1
    if found is not None or not counts:
        raise lines.unexpected(f"ngram {len(counts) + 1}=COUNT")
    return counts


def _read_section(lines: arpa_lines.Lines, order: int, count: int, ids: dict[bytes, int]) -> _Section:
    """Reads the n-grams of an order; those of order 1 fill `ids`."""
    lines.expect(b"\\%d-grams:" % order)
    lines.peek()
    first, numbers, words = lines.next, array.array("d"), array.array("q")
    for index in range(first, len(lines.lines)):
        row = lines.lines[index].split()
        if len(row) not in (order + 1, order + 2):
            break
        numbers.extend(_parse_number(lines, index, text) for text in (row[0], *(row[order + 1 :] or [b"0"])))
        if order == 1:
            _add_word(lines, index, row[1], ids)
        words.extend(_find_word(lines, index, word, ids) for word in row[1 : order + 1])
    lines.next = first + len(numbers) // 2
    _check_end(lines, order, len(numbers) // 2, count)
    log_probs, back_offs = (np.frombuffer(numbers, np.float64) if numbers else np.zeros(0)).reshape(-1, 2).T
    made = model.Ngrams(np.array(words, np.int64).reshape(-1, order), log_probs, back_offs)
    if np.any(log_probs > 0):
        index = first + int(np.argmax(log_probs > 0))
        raise lines.error(index, f"log10 probability is above 0, expected at most 0; {arpa_lines.ADVICE}")
    to_natural = np.log(10)
    return _Section(first, made._replace(log_probs=log_probs * to_natural, back_offs=back_offs * to_natural))


def _parse_number(lines, index, text) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise lines.error(index, f"{arpa_lines.quote(text)} is not a finite number; {arpa_lines.ADVICE}")
    return number


def _add_word(lines, index, word, ids):
    if word in ids:
        raise lines.error(index, f"{arpa_lines.quote(word)} is a duplicate; {arpa_lines.ADVICE}")
    ids[word] = len(ids)


def _find_word(lines, index, word, ids) -> int:
    if word not in ids:
        raise lines.error(index, f"{arpa_lines.quote(word)} is not among the 1-grams; {arpa_lines.ADVICE}")
    return ids[word]


def _check_end(lines, order, got, count):
    """Checks the number of n-grams, and that a blank line, a section or the end follows."""
    following = lines.peek()
    if following and not following.startswith(b"\\"):
        raise lines.error(
            lines.next,
            f"{arpa_lines.quote(following)} has {len(following.split())} fields, expected {order + 1} or "
            f"{order + 2} (log10 probability, words, back-off weight); {arpa_lines.ADVICE}",
        )
    if got != count:
        raise errors.UserError(
            f"{lines.path}: has {got} {order}-grams, expected {count} as \\data\\ says; {arpa_lines.ADVICE}"
        )


def _check_marks(lines, ids):
    missing = [mark for mark in (model.START, model.END) if mark.encode() not in ids]
    if missing:
        raise errors.UserError(
            f"{lines.path}: 1-grams lack {' and '.join(missing)}, expected a model of sentences; train it "
            "on lines of text"
        )


def _check_ngrams(lines, sections, made):
    """Checks that no n-gram is a duplicate and that the context of each is in the model."""
    index = model.Index(made)
    for order, section in enumerate(sections[1:], start=2):
        words = section.ngrams.words
        row = index.find_duplicate(order)
        if row >= 0:
            raise lines.error(section.first + row, f"the {order}-gram is a duplicate; {arpa_lines.ADVICE}")
        absent = index.find(words[:, :-1]) < 0
        if np.any(absent):
            row = int(np.argmax(absent))
            context = " ".join(made.words[word] for word in words[row, :-1])
            raise lines.error(
                section.first + row,
                f"context {context!r} is not among the {order - 1}-grams; prune with a tool that keeps it",
            )


def _decode(lines, section, ids) -> tuple[str, ...]:
    words = []
    for index, word in enumerate(ids):
        try:
            words.append(model.UNKNOWN if word == _OTHER_UNKNOWN else word.decode())
        except UnicodeDecodeError:
            raise lines.error(
                section.first + index, f"{arpa_lines.quote(word)} is not UTF-8; {arpa_lines.ADVICE}"
            ) from None
    return tuple(words)
