"""Reads and writes n-gram models in SRILM's and KenLM's ARPA format (ngram-format(5)), plain or gzipped.

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

Lines before \\data\\ are ignored. An n-gram's fields, separated by tabs or spaces, are the log10 probability,
the words, and the log10 back-off weight (0 if missing). -inf is read as -99, which SRILM writes for log10(0).
"""

from __future__ import annotations

import array
import codecs
import gzip
import re
import zlib
from collections.abc import Iterator

import numpy as np

from estimator_asr.decoding.ngrams import model
from tfrecord_builder import errors
from tfrecord_builder.storage import files

_GZIP_START = b"\x1f\x8b"
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)")
_OTHER_UNKNOWN = b"<UNK>"  # a variant of <unk> that KenLM also accepts
# Matches a line that has nothing between two tabs, or a back-off weight where its only word should be.
_NO_WORD = re.compile(rb"\t *\t|^\S+ +(-\d[\d.e-]*|\d+\.\d+)$")
_ADVICE = "copy or write the file again"


def write(ngram_model: model.NgramModel, path: str) -> None:
    """Writes a model to a file atomically; the same model always produces the same bytes."""
    lines = (f"{line}\n".encode() for line in _format_lines(ngram_model))
    with files.writing(path) as temporary, open(temporary, "wb") as file:
        if not path.endswith(".gz"):
            return file.writelines(lines)
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as compressed:
            compressed.writelines(lines)


def _format_lines(ngram_model: model.NgramModel) -> Iterator[str]:
    yield "\\data\\"
    yield from (f"ngram {n}={len(ngrams.words)}" for n, ngrams in enumerate(ngram_model.orders, start=1))
    to_log10 = 1 / np.log(10)
    for n, ngrams in enumerate(ngram_model.orders, start=1):
        yield f"\n\\{n}-grams:"
        columns = (ngrams.words, ngrams.log_probs * to_log10, ngrams.back_offs * to_log10)
        for ids, log_prob, back_off in zip(*(column.tolist() for column in columns)):
            line = f"{log_prob:.7g}\t{' '.join([ngram_model.words[index] for index in ids])}"
            yield f"{line}\t{back_off:.7g}" if back_off else line
    yield "\n\\end\\"


def read(path: str) -> model.NgramModel:
    """Reads a model; raises errors.UserError if the file cannot be read or is not a valid ARPA file."""
    lines = _Lines(path)
    firsts, orders, ids = [], [], {}
    for order, count in enumerate(_read_header(lines), start=1):
        first, ngrams = _read_section(lines, order, count, ids)
        firsts.append(first)
        orders.append(ngrams)
    lines.expect(b"\\end\\")
    words = tuple(model.UNKNOWN if word == _OTHER_UNKNOWN else word.decode() for word in ids)
    _check_contexts(lines, firsts, model.NgramModel(words, tuple(orders)))
    while not len(orders[-1].words):
        orders.pop()
    return model.NgramModel(words, tuple(orders))


class _Lines:
    """The lines of a file, read one by one; blank lines are skipped."""

    def __init__(self, path: str):
        self.path, self.lines, self.next = path, _read_bytes(path).split(b"\n"), 0

    def peek(self) -> bytes:
        """Returns the next non-blank line, stripped of white space, or b"" at the end of the file."""
        while self.next < len(self.lines) and not self.lines[self.next].strip():
            self.next += 1
        return self.lines[self.next].strip() if self.next < len(self.lines) else b""

    def expect(self, line: bytes) -> None:
        """Moves past the next line; raises errors.UserError if the next line is not `line`."""
        if self.peek() != line:
            raise self.unexpected(line.decode())
        self.next += 1

    def unexpected(self, expected: str) -> errors.UserError:
        """Returns an error that quotes the next line and names what was expected."""
        line = self.peek()
        if not line:
            return errors.UserError(f"{self.path}: the file ends before {expected}; {_ADVICE}")
        return self.error(self.next, f"found {_quote(line)}, expected {expected}; {_ADVICE}")

    def error(self, index: int, reason: str) -> errors.UserError:
        return errors.UserError(f"{self.path}: line {index + 1}: {reason}")


def _read_bytes(path: str) -> bytes:
    try:
        with files.open_binary(path) as file:
            content = file.read()
        content = gzip.decompress(content) if content.startswith(_GZIP_START) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise errors.UserError(f"{path}: the gzip file is damaged ({error}); {_ADVICE}") from error
    except OSError as error:
        raise errors.UserError(
            f"{path}: the n-gram model cannot be read ({error.strerror}); pass the path of an ARPA file"
        ) from error
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise errors.UserError(f"{path}: the text is in UTF-16; convert it with iconv -f UTF-16 -t UTF-8")
    return content.removeprefix(codecs.BOM_UTF8)


def _read_header(lines: _Lines) -> list[int]:
    """Reads the header; returns the number of n-grams that it declares for each order."""
    starts = [index for index, line in enumerate(lines.lines) if line.strip() == b"\\data\\"]
    if not starts:
        raise errors.UserError(
            f"{lines.path}: there is no \\data\\ line, so this is not an ARPA file; if it is a binary model, "
            "convert it to ARPA with the tool that made it"
        )
    lines.next = starts[0] + 1
    counts: list[int] = []
    match = _COUNT.fullmatch(lines.peek())
    while match and int(match[1]) == len(counts) + 1:
        counts.append(int(match[2]))
        lines.next += 1
        match = _COUNT.fullmatch(lines.peek())
    if match or not counts:
        raise lines.unexpected(f"ngram {len(counts) + 1}=COUNT")
    return counts


def _read_section(lines: _Lines, order: int, count: int, ids: dict[bytes, int]) -> tuple[int, model.Ngrams]:
    """Returns the index of an order's first line, and the n-grams; for order 1, also adds words to `ids`."""
    lines.expect(b"\\%d-grams:" % order)
    lines.peek()
    first, numbers, words = lines.next, array.array("d"), array.array("q")
    for index in range(first, len(lines.lines)):
        row = lines.lines[index].split()
        if len(row) not in (order + 1, order + 2):
            break
        try:
            if _NO_WORD.search(lines.lines[index].strip()):
                raise ValueError(f"{_quote(lines.lines[index].strip())} has no word after the probability")
            if order == 1:
                _add_word(row[1], ids)
            numbers.extend(map(_parse_number, (row[0], *(row[order + 1 :] or [b"0"]))))
            words.extend([ids[word] for word in row[1 : order + 1]])
        except ValueError as reason:
            raise lines.error(index, f"{reason}; {_ADVICE}") from None
        except KeyError as error:
            raise lines.error(index, f"{_quote(error.args[0])} is not among the 1-grams; {_ADVICE}") from None
    lines.next = first + len(numbers) // 2
    _check_end(lines, order, len(numbers) // 2, count)
    if order == 1:
        _check_marks(lines, ids)
    log_probs, back_offs = np.array(numbers, np.float64).reshape(-1, 2).T * np.log(10)
    if np.any(log_probs > 0):
        index = first + int(np.argmax(log_probs > 0))
        raise lines.error(index, f"the log10 probability is above 0; {_ADVICE}")
    return first, model.Ngrams(np.array(words, np.int64).reshape(-1, order), log_probs, back_offs)


def _add_word(word: bytes, ids: dict[bytes, int]) -> None:
    if word in ids:
        raise ValueError(f"{_quote(word)} is a duplicate")
    if word.decode(errors="ignore").encode() != word:
        raise ValueError(f"{_quote(word)} is not UTF-8")
    ids[word] = len(ids)


def _parse_number(text: bytes) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if number == -np.inf:
        return model.ZERO_LOG10
    if not np.isfinite(number):
        raise ValueError(f"{_quote(text)} is not a finite number")
    return number


def _check_end(lines: _Lines, order: int, num_ngrams: int, count: int) -> None:
    """Checks that a section ends at the next line, and that its `num_ngrams` equals the header's `count`."""
    following = lines.peek()
    if following and not following.startswith(b"\\"):
        raise lines.error(
            lines.next,
            f"{_quote(following)} has {len(following.split())} fields, expected {order + 1} or {order + 2} "
            f"(log10 probability, words, back-off weight); {_ADVICE}",
        )
    if num_ngrams != count:
        raise errors.UserError(
            f"{lines.path}: the file has {num_ngrams} {order}-grams, but \\data\\ declares {count}; {_ADVICE}"
        )


def _check_marks(lines: _Lines, ids: dict[bytes, int]) -> None:
    missing = [mark for mark in (model.START, model.END) if mark.encode() not in ids]
    if missing:
        raise errors.UserError(
            f"{lines.path}: the 1-grams lack {' and '.join(missing)}, so this is not a model of sentences; "
            "train a model on text with one sentence per line"
        )


def _check_contexts(lines: _Lines, firsts: list[int], ngram_model: model.NgramModel) -> None:
    """Checks that there are no duplicate n-grams, and that the model contains every n-gram's context."""
    index = model.Index(ngram_model)
    for order, (first, ngrams) in enumerate(zip(firsts[1:], ngram_model.orders[1:]), start=2):
        row = index.find_duplicate(order)
        if row >= 0:
            raise lines.error(first + row, f"the {order}-gram is a duplicate; {_ADVICE}")
        is_absent = index.find(ngrams.words[:, :-1]) < 0
        if np.any(is_absent):
            row = int(np.argmax(is_absent))
            context = " ".join(ngram_model.words[word] for word in ngrams.words[row, :-1])
            raise lines.error(
                first + row,
                f"context {context!r} is not among the {order - 1}-grams; use a pruning tool that keeps the "
                "contexts of n-grams",
            )


def _quote(text: bytes) -> str:
    shown = text.decode(errors="replace")
    return repr(shown if len(shown) <= 60 else f"{shown[:60]}...")
