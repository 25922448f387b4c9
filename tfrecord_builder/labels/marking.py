"""Normalises texts together with their punctuation marks (data/marks.py), and labels texts with marks.

    normalise('他说:"好!"花了3.5元……')  ->  "他说：好！花了三点五元。"

Numbers are read as they are spoken, because a recogniser writes them in hanzi. Quotation marks and brackets
are dropped, but not what they enclose. An ellipsis or a tilde counts as a full stop, a dash as a comma.
"""

from __future__ import annotations

import collections
import functools
import re
import unicodedata
from typing import Optional

from tfrecord_builder.data import manifest, marks
from tfrecord_builder.labels import homophones, labelling, normalisation, numerals

_OTHER = "other punctuation marks"
_QUOTES = "quotation marks and brackets"
_CLAUSE = re.compile(r"(?<=[，。！？；])(?!\d)")


def normalise(text: str) -> str:
    """Returns the normalised transcript with its marks; spaces remain only between two Latin words."""
    phrases = []
    for index, part in enumerate(marks.PATTERN.split(_read(text))):
        phrases.append(marks.unify_mark(part) if index % 2 else normalisation.normalise(part))
    _, mark_ids = marks.split("".join(phrases))
    return marks.join(normalisation.normalise(" ".join(phrases)), mark_ids)


@functools.lru_cache(maxsize=1)
def _read(text: str) -> str:
    """Returns the text with numbers in hanzi; numerals.read is slow, but skips clauses without digits."""
    return "".join(map(numerals.read, _CLAUSE.split(text)))


def has_marks(text: str) -> bool:
    """Returns True if the text contains a punctuation mark after a character."""
    return any(marks.split(marks.PATTERN.sub("，", normalisation.compose(text)))[1])


class MarkLabeller(labelling.Labeller):
    """Labels texts with characters and marks, without tokens; in train, some hanzi become homophones."""

    def __init__(self, config: labelling.LabelConfig, sounds: homophones.Homophones):
        super().__init__(config)
        self._homophones = sounds

    def describe(self) -> list:
        return [*super().describe(), self._homophones.sha256]

    def __call__(self, utterance: manifest.Utterance) -> labelling.Labels:
        text = normalise(utterance.text)
        characters, mark_ids = marks.split(text)
        transcript = normalisation.normalise(text)
        if utterance.split == "train":
            transcript = self._homophones.replace(transcript, utterance.utterance_id)
            characters = list(transcript.replace(" ", ""))
        return labelling.Labels(transcript, (), tuple(characters), tuple(mark_ids))

    def has_unclear_numbers(self, utterance: manifest.Utterance) -> bool:
        return False  # there is no recording, so any reading of the numbers is right

    def count_left_out(self, utterance: manifest.Utterance) -> collections.Counter[str]:
        text = _read(utterance.text)
        kinds = map(_kind_of_dropped, marks.PATTERN.sub("", text))
        return normalisation.count_left_out(text) + collections.Counter(filter(None, kinds))


@functools.cache
def _kind_of_dropped(character: str) -> Optional[str]:
    """Returns the kind of a punctuation mark that normalisation drops; None for any other character."""
    if marks.is_quote(character):
        return _QUOTES
    is_symbol = normalisation.count_left_out(character)  # counted by normalisation, not here
    return _OTHER if unicodedata.category(character)[0] == "P" and not is_symbol else None
