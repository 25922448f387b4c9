"""Floors: the error rate that would remain if one part of the recogniser made no error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from estimator_asr.scoring import attribution, edit_distance, utterances

REFERENCE_PINYIN, N_BEST_ORACLE, VOCABULARY = "reference_pinyin", "n_best_oracle", "vocabulary"
FLOORS = {
    REFERENCE_PINYIN: "the acoustic model heard each syllable, and the language model wrote them",
    N_BEST_ORACLE: "the best of the hypotheses of each utterance was chosen",
    VOCABULARY: "only what the vocabularies lack was wrong",
}
Scored = Sequence[utterances.ScoredUtterance]


def choose_oracle(measure: str, scored: Scored, outputs: Sequence[Mapping]) -> Scored:
    """Returns each utterance with the hypothesis of fewest errors among its n best, the first among equals.

    Empty if the outputs have no n best, which are of the last measure.
    """
    if not outputs or "n_best" not in outputs[0]:
        return []
    return [_choose(measure, row, output["n_best"]) for row, output in zip(scored, outputs)]


def reach_all(
    scored: Scored, references: Sequence[Sequence[attribution.Unit]], vocabularies: attribution.Vocabularies
) -> Scored:
    """Returns each utterance as if only what the vocabularies lack were substituted."""
    missing = [sum(not vocabularies.has(unit) for unit in units) for units in references]
    return [
        dataclasses.replace(row, edits=edit_distance.Edits(number, 0, 0, row.edits.reference_length))
        for row, number in zip(scored, missing)
    ]


def _choose(measure: str, row: utterances.ScoredUtterance, n_best: Sequence[Mapping]):
    texts = dict.fromkeys([row.hypothesis, *(each["transcript"] for each in n_best)])
    found = [utterances.score(measure, row.utterance_id, row.speaker, row.reference, text) for text in texts]
    return min(found, key=lambda each: each.edits.errors)
