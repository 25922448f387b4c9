"""Error rates inside and outside hotwords, which show whether hotwords help and what they cost.

The biased and unbiased error rates are B-WER and U-WER of Le et al., "Contextualized Streaming End-to-End
Speech Recognition with Trie-Based Deep Biasing and Shallow Fusion", Interspeech 2021, section 3.2. A
reference token is biased if it is part of a hotword in the reference; an inserted token is biased if it is
part of a hotword in the hypothesis.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from estimator_asr.scoring import breakdown, edit_distance, error_rate, utterances
from tfrecord_builder.data import syllables

BIASED, UNBIASED = "biased_error_rate", "unbiased_error_rate"
Phrases = Mapping[str, Sequence[Sequence[str]]]  # token sequences, grouped by their first token


def measure(
    hotwords: Sequence[str],
    name: str,
    scored: Sequence[utterances.ScoredUtterance],
    are_speakers_people: bool = True,
) -> dict[str, error_rate.ErrorRate]:
    """Returns the biased and the unbiased error rate for the measure `name`, a key of utterances.MEASURES.

    Hotwords have the format that the SavedModel reads: text, one syllable per character, boost. Their
    syllables match tokens with and without tones. For are_speakers_people, see breakdown.overall.
    """
    phrases = index([phrase for hotword in hotwords for phrase in _spell(hotword, name)])
    parts = zip(*(_split(phrases, row) for row in scored))
    return {key: breakdown.overall(part, are_speakers_people) for key, part in zip((BIASED, UNBIASED), parts)}


def index(phrases: Sequence[Sequence[str]]) -> Phrases:
    """Groups token sequences by their first token."""
    by_first = collections.defaultdict(list)
    for phrase in dict.fromkeys(phrases):  # drops duplicates: a hotword has one entry per reading
        by_first[phrase[0]].append(phrase)
    return by_first


def mark(phrases: Phrases, tokens: Sequence[str]) -> list[bool]:
    """Returns True for each token that is part of a phrase; tokens and phrases must have the same type."""
    is_inside = [False] * len(tokens)
    for start, token in enumerate(tokens):
        for phrase in phrases.get(token, ()):
            if tokens[start : start + len(phrase)] == phrase:
                is_inside[start : start + len(phrase)] = [True] * len(phrase)
    return is_inside


def _spell(hotword: str, name: str) -> list[tuple[str, ...]]:
    text, *fields = hotword.split()
    if name == utterances.CHARACTER_ERROR_RATE:
        return [utterances.split_characters(text)]
    pinyin = tuple(fields[: len(text)])
    return [pinyin, tuple(map(syllables.without_tone, pinyin))]


def _split(phrases: Phrases, scored: utterances.ScoredUtterance) -> list[utterances.ScoredUtterance]:
    texts = scored.reference_tokens, scored.hypothesis_tokens
    parts = edit_distance.split_edits(*texts, *(mark(phrases, tokens) for tokens in texts))
    return [dataclasses.replace(scored, edits=edits) for edits in parts]
