"""The content of metrics.json."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from estimator_asr.scoring import attribution, biasing, breakdown, error_rate, floors, syllable_parts
from estimator_asr.scoring.reports import scored_split


def measure(split: scored_split.ScoredSplit) -> dict:
    """Returns the content of metrics.json: facts, error rates overall, by speaker and by group, causes."""
    values = {**split.facts, "num_utterances": len(split.scored)}
    if split.are_speakers_people:
        known = [utterance.speaker for utterance in split.scored if utterance.is_speaker_known]
        values["num_speakers"] = len(set(known))
        values["num_utterances_of_unknown_speakers"] = len(split.scored) - len(known)
    for name, scored in (*split.measures.items(), *syllable_parts.rescore(split.measures)):
        values[name] = dataclasses.asdict(breakdown.overall(scored, split.are_speakers_people))
    if split.hotwords:
        rates = biasing.measure(split.hotwords, split.measure, split.scored, split.are_speakers_people)
        values.update({name: dataclasses.asdict(rate) for name, rate in rates.items()})
    values["attribution"] = attribution.count([each for row in split.positions for each in row])
    values["floors"] = {name: dataclasses.asdict(rate) for name, rate in _list_floors(split)}
    values["by_speaker"] = _table(split, breakdown.by_speaker)
    if split.group_pattern is not None:
        options = {"pattern": split.group_pattern, "are_speakers_people": split.are_speakers_people}
        values["by_group"] = _table(split, functools.partial(breakdown.by_group, **options))
    return values


def _list_floors(split: scored_split.ScoredSplit) -> Iterator[tuple[str, error_rate.ErrorRate]]:
    oracle = floors.choose_oracle(split.measure, split.scored, split.outputs)
    references = [reference for reference, _ in split.units]
    reachable = floors.reach_all(split.scored, references, split.vocabularies)
    found = (split.on_reference_pinyin, oracle, reachable)
    for name, rows in zip((floors.REFERENCE_PINYIN, floors.N_BEST_ORACLE, floors.VOCABULARY), found):
        if rows:
            yield name, breakdown.overall(rows, split.are_speakers_people)


def _table(split, break_down):
    """Returns label -> measure -> error rate."""
    rows = {}
    for name, scored in split.measures.items():
        for label, rate in break_down(scored).items():
            rows.setdefault(label, {})[name] = dataclasses.asdict(rate)
    return rows
