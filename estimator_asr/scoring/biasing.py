"""Error rates inside and outside of hotwords: whether they help, and what they cost.

Biased and unbiased error rate (B-WER and U-WER of Le et al., "Contextualized Streaming End-to-End Speech
Recognition with Trie-Based Deep Biasing and Shallow Fusion", Interspeech 2021, section 3.2): a token of the
reference is biased if it is in a hotword there, an inserted token if it is in a hotword of the hypothesis.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from estimator_asr.scoring import breakdown, edit_distance, error_rate, utterances
from tfrecord_builder.tokens import syllables

BIASED, UNBIASED = "biased_error_rate", "unbiased_error_rate"
Phrases = Mapping[str, Sequence[Sequence[str]]]  # the sequences of tokens by their first one


def measure(
    hotwords: Sequence[str],
    name: str,
    scored: Sequence[utterances.ScoredUtterance],
    are_speakers_people: bool = True,
) -> dict[str, error_rate.ErrorRate]:
    """Returns both rates of utterances in the measure `name`, a key of utterances.MEASURES.

    Hotwords are as the SavedModel reads them: text, a syllable for each of its characters, boost. Their
    syllables also match without tones. are_speakers_people is as for breakdown.overall.
    """
    phrases = index([phrase for hotword in hotwords for phrase in _spell(hotword, name)])
    parts = zip(*(_split(phrases, each) for each in scored))
    return {key: breakdown.overall(part, are_speakers_people) for key, part in zip((BIASED, UNBIASED), parts)}


def index(phrases: Sequence[Sequence[str]]) -> Phrases:
    """Returns the sequences of tokens by their first one."""
    by_first = collections.defaultdict(list)
    for phrase in dict.fromkeys(phrases):  # a hotword has an entry for each of its readings
        by_first[phrase[0]].append(phrase)
    return by_first


def mark(phrases: Phrases, tokens: Sequence[str]) -> list[bool]:
    """Returns whether each token is in a phrase; tokens and phrases are of one type, str or tuple."""
    is_inside = [False] * len(tokens)
    for start, token in enumerate(tokens):
        for phrase in phrases.get(token, ()):
            if tokens[start : start + len(phrase)] == phrase:
                is_inside[start : start + len(phrase)] = [True] * len(phrase)
    return is_inside


def _spell(hotword: str, name: str) -> list[tuple[str, ...]]:
    text, *rest = hotword.split()
    if name == utterances.CHARACTER_ERROR_RATE:
        return [utterances.split_characters(text)]
    spoken = tuple(rest[: len(text)])
    return [spoken, tuple(map(syllables.without_tone, spoken))]


def _split(phrases: Phrases, scored: utterances.ScoredUtterance) -> list[utterances.ScoredUtterance]:
    texts = scored.reference_tokens, scored.hypothesis_tokens
    is_biased = [mark(phrases, tokens) for tokens in texts]
    return [
        dataclasses.replace(scored, edits=edits) for edits in edit_distance.split_edits(*texts, *is_biased)
    ]
