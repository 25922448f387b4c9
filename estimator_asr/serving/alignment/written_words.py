"""Divides a phrase into its written words, and counts the tokens of each word.

约5%的DVD店，  ->  约, 5%, 的, DVD, 店，  with 1, 4, 1, 3 and 1 syllables
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rapidfuzz.distance import Levenshtein

from estimator_asr.serving.alignment import texts
from tfrecord_builder.data import syllables, vocabulary
from tfrecord_builder.labels import normalisation


def split(text: str, num_tokens: int, token_type: str) -> list[tuple[str, int]]:
    """Returns the words of a phrase that has num_tokens tokens, each word with its number of tokens.

    Each hanzi is a word, and so is each run of other characters without spaces. Punctuation and other text
    without tokens belong to the word before them.
    """
    labels = texts.make_labeller("character" if token_type == "character" else "syllable")(text)
    is_split = token_type == "initial_final"
    counts = [len(syllables.split_initial_final(token)) if is_split else 1 for token in labels.tokens]
    runs = enumerate(normalisation.HANZI_RUN.split(text))  # every second run consists of hanzi
    parts = [part for i, run in runs for part in (run if i % 2 else re.findall(r"\s+|\S+", run))]
    totals = [0] * len(parts)
    for part, count in zip(_find_owners(parts, labels.characters or labels.tokens), counts):
        totals[part] += count
    if sum(totals) != num_tokens:
        return [(text, num_tokens)]
    words = [("", 0)]
    for part, total in zip(parts, totals):
        before, count = words.pop() if not (total and words[-1][1]) else ("", 0)
        words.append((before + part, count + total))
    return words


def _find_owners(parts: Sequence[str], said: Sequence[str]) -> Iterator[int]:
    """Yields, for each spoken character, the index of its part of the text, found by the fewest edits."""
    owners = [i for i, part in enumerate(parts) for _ in part]
    characters = [vocabulary.SPACE if c == " " else c.lower() for part in parts for c in part]
    place = start = 0
    for block in Levenshtein.editops(characters, said).as_matching_blocks():
        changed = [i for i in owners[place : block.a] if any(map(str.isalnum, parts[i]))]
        yield from [(changed or owners[max(0, place - 1) :])[0]] * (block.b - start)
        yield from owners[block.a : block.a + block.size]
        place, start = block.a + block.size, block.b + block.size
