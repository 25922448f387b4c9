"""Replaces characters with others that sound alike, to imitate the errors of a speech recogniser."""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import random
from collections.abc import Iterable, Mapping

from tfrecord_builder.data import syllables
from tfrecord_builder.labels import normalisation

RATE = 0.03  # fraction of hanzi to replace
_OTHER_TONE = 0.2  # weight of a homophone in a different tone, relative to one in the same tone


class Homophones:
    """The characters that sound like each character, weighted by how often they occur in a text."""

    def __init__(self, counts: Mapping[str, int]):
        """`counts` maps each hanzi of a text to its number of occurrences; other characters are ignored."""
        self.sha256 = hashlib.sha256(json.dumps(sorted(counts.items())).encode()).hexdigest()
        self._choices = dict(_list_choices(counts))

    def replace(self, text: str, seed: str) -> str:
        """Returns the text with a fraction RATE of its hanzi replaced; `seed` determines which ones."""
        generator, characters = random.Random(seed), list(text)
        for index, character in enumerate(characters):
            if generator.random() < RATE and character in self._choices:
                others, cumulative_weights = self._choices[character]
                (characters[index],) = generator.choices(others, cum_weights=cumulative_weights)
        return "".join(characters)


def count_hanzi(texts: Iterable[str]) -> collections.Counter[str]:
    """Counts each hanzi in the texts."""
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        counts.update("".join(normalisation.HANZI_RUN.findall(text)))
    return counts


def _list_choices(counts):
    """Yields (character, (its homophones, their cumulative weights)); only a hanzi's first reading counts."""
    from tfrecord_builder.labels import pinyin  # slow to import

    groups = collections.defaultdict(list)
    for character in sorted(filter(normalisation.is_hanzi, counts)):
        for reading in pinyin.dictionary_readings(character)[:1]:
            groups[syllables.without_tone(reading)].append((character, reading))
    for group in groups.values():
        for character, reading in group:
            others = [(other, sound) for other, sound in group if other != character]
            weights = [counts[other] * (1 if sound == reading else _OTHER_TONE) for other, sound in others]
            if others:
                yield character, ([other for other, _ in others], list(itertools.accumulate(weights)))
