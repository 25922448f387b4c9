"""Reads texts with punctuation marks, and cuts them at random places, as a recogniser may cut speech."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest, marks

# Text for the punctuation model: {train,dev,test}.txt, with one paragraph per line.
#
#     首先，我要用最快的速度为大家演示一些新技术的基础研究成果。正好是一年前，微软收购了我们公司。

_MIN_CHARACTERS, _MAX_CHARACTERS = 10, 200  # length of a piece of text, marks included
_CLOSING = re.compile(r"[^\w\s]*")  # marks, quotation marks and brackets
_SENTENCE_END = re.compile(r"[。？！；?!;…][^\w\s]*")
_LAST_CHARACTER = re.compile(r"\w?\W*$")
_LATIN = "0-9A-Za-z０-９Ａ-Ｚａ-ｚ"
# Matches after a letter or digit, and within 3.5, 10:30, 1,234, 2026-11-27, a.cn and http://a.
_INSIDE = re.compile(rf"(?<=[{_LATIN}])|(?<=[{_LATIN}][-.,:/．：])(?=[{_LATIN}/])|(?<=[:/]/)")


def list_punctuated(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields pieces of the texts in train.txt, dev.txt (or valid.txt, ...) and test.txt.

    Pieces run across paragraphs. Half of the pieces end with a sentence, the others anywhere. A paragraph
    without any mark is left out, because it does not show where marks belong. If a paragraph ends without a
    mark, its last character is left out, and the next piece starts with the next paragraph.
    """
    texts = layout.find_split_files(corpus_dir, ".txt")
    if not texts:
        raise errors.UserError(
            f"{corpus_dir}: found no text, expected train.txt (or dev, valid, test) with one paragraph per "
            "line; pass the directory that contains these files."
        )
    for split, path in texts:
        for number, piece in enumerate(cut(_read_paragraphs(path), random.Random(split)), 1):
            yield manifest.Utterance(f"{split}-{number}", None, "", piece, "", split)


def cut(paragraphs: Iterable[str], generator: random.Random) -> Iterator[str]:
    """Yields pieces of text, of random lengths, that run across paragraphs.

    A piece has 10 to 200 characters, or slightly more so that it does not end inside a number, a time, an
    address or a Latin word. The logarithm of its length is uniformly distributed, but half of the pieces are
    then extended to the end of a sentence. The last piece, and the last one of a paragraph that ends without
    a mark, may be shorter.
    """
    text = ""
    for paragraph in paragraphs:
        text += paragraph
        is_marked = marks.ends_with_mark(paragraph)
        while len(text) > 2 * _MAX_CHARACTERS or (text and not is_marked):
            end = _choose_end(text, generator)
            if end >= len(text) and not is_marked:
                yield from filter(None, [_LAST_CHARACTER.sub("", text)])
                text = ""
            else:
                yield text[:end]
                text = text[end:]
    while text:
        end = _choose_end(text, generator)
        yield text[:end]
        text = text[end:]


def _choose_end(text: str, generator: random.Random) -> int:
    ratio = _MAX_CHARACTERS / _MIN_CHARACTERS
    end = round(_MIN_CHARACTERS * ratio ** generator.random())
    if generator.random() < 0.5:
        sentence = _SENTENCE_END.search(text, end - 1, _MAX_CHARACTERS)
        end = sentence.end() if sentence else end
    while end < len(text) and _INSIDE.match(text, end):
        end += 1
    return _CLOSING.match(text, end).end()


def _read_paragraphs(path: str) -> Iterator[str]:
    """Yields the paragraphs that have marks, and logs how many paragraphs have none."""
    num_unmarked = 0
    for line in text_files.read_lines(path, "pass a text file with one paragraph per line"):
        paragraph = line.strip()
        if marks.has_mark(paragraph):
            yield paragraph
        else:
            num_unmarked += bool(paragraph)
    if num_unmarked:
        logging.warning("%s: %d paragraphs without a mark were left out", path, num_unmarked)
