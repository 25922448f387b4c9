"""Error rates of parts of syllables: which part the acoustic model confuses, and whether sentences are whole.

Each part of the tokens is a sequence of its own, compared by its own shortest alignment: the initials of
`ni3 hao3` are n, h. A token that is no syllable, a letter for instance, is its own part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from estimator_asr.scoring import edit_distance, utterances
from tfrecord_builder.tokens import syllables

SENTENCE_ERROR_RATE = "sentence_error_rate"


def _part(place: int) -> Callable[[str], str]:
    def take(token: str) -> str:
        split = syllables.split_syllable(token)
        return token if split is None else split[place]

    return take


PARTS = {
    "toneless_error_rate": syllables.without_tone,
    "initial_error_rate": _part(0),
    "final_error_rate": _part(1),
    "tone_error_rate": _part(2),
}
Scored = Sequence[utterances.ScoredUtterance]


def rescore(measures: dict[str, Scored]) -> Iterator[tuple[str, list[utterances.ScoredUtterance]]]:
    """Yields the name of each further rate with its utterances.

    Args:
        measures: scored utterances by the keys of utterances.MEASURES. Sentences are those of the last one;
            parts are of toned syllables, and there are none without.
    """
    scored = measures.get(utterances.TOKEN_ERROR_RATE, ())
    if any(syllables.split_syllable(token) for each in scored for token in each.reference_tokens):
        for name, take in PARTS.items():
            yield name, [_compare(each, take) for each in scored]
    yield SENTENCE_ERROR_RATE, [_compare_whole(each) for each in list(measures.values())[-1]]


def _compare(scored: utterances.ScoredUtterance, take: Callable[[str], str]) -> utterances.ScoredUtterance:
    reference, hypothesis = (
        tuple(map(take, tokens)) for tokens in (scored.reference_tokens, scored.hypothesis_tokens)
    )
    edits = edit_distance.count_edits(reference, hypothesis)
    return dataclasses.replace(scored, reference_tokens=reference, hypothesis_tokens=hypothesis, edits=edits)


def _compare_whole(scored: utterances.ScoredUtterance) -> utterances.ScoredUtterance:
    """Counts the sentence as one token, substituted if anything in it is wrong."""
    return dataclasses.replace(scored, edits=edit_distance.Edits(int(scored.edits.errors > 0), 0, 0, 1))
