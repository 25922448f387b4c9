"""A recognised and scored split, from which a report is made, and the contents of its metrics.json."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_asr.scoring import (
    attribution,
    biasing,
    breakdown,
    delays,
    edit_distance,
    punctuation_scores,
    utterances,
)
from tfrecord_builder.data import recordings

# Floors: the error rates that would remain if parts of the recogniser made no errors.
REFERENCE_PINYIN, N_BEST_ORACLE, VOCABULARY = "reference_pinyin", "n_best_oracle", "vocabulary"
FLOORS = {
    REFERENCE_PINYIN: "the acoustic model recognised every syllable and the language model wrote the text",
    N_BEST_ORACLE: "the best hypothesis of each n-best list was chosen",
    VOCABULARY: "only characters and syllables outside the vocabularies were wrong",
}
WRITTEN_FORM = "written_form"  # error rate of the text with numbers in digits, without marks
Scored = Sequence[utterances.ScoredUtterance]


@dataclasses.dataclass(frozen=True)
class ScoredSplit:
    """A recognised and scored split."""

    facts: Mapping[str, object]  # the model, checkpoint, data and split that were evaluated
    # Utterances for each key of utterances.MEASURES; the report attributes the errors of the last measure.
    measures: Mapping[str, Scored]
    group_pattern: Optional[str] = None  # see breakdown.by_group; if None, there are no groups
    are_speakers_people: bool = True  # see breakdown.overall
    outputs: Sequence[Mapping] = ()  # outputs of each utterance, for hypotheses.jsonl
    hotwords: Sequence[str] = ()  # see biasing.measure
    # Input of the language model (pinyin), keyed by utterance id; empty for an acoustic model.
    pronunciations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vocabularies: attribution.KnownVocabularies = attribution.KnownVocabularies()
    on_reference_pinyin: Scored = ()  # scored output of the language model for the reference pinyin
    # Utterances with marks in the reference (if the recogniser writes marks): with marks, then without them.
    marked: Sequence[punctuation_scores.MarkedText] = ()
    written_forms: Scored = ()
    # Recordings, keyed by utterance id; the report plays all recordings that can be read.
    recordings: Mapping[str, recordings.Recording] = dataclasses.field(default_factory=dict)
    command: str = ""  # command line that reproduces this report

    @property
    def measure(self) -> str:
        """Name of the last measure, whose errors are attributed."""
        return list(self.measures)[-1]

    @property
    def scored(self) -> Scored:
        return self.measures[self.measure]

    @functools.cached_property
    def marked_texts(self) -> dict[str, tuple[str, str]]:
        """The reference and the hypothesis with marks, keyed by utterance id."""
        return {text.utterance_id: (text.reference, text.hypothesis) for text in self.marked}

    @functools.cached_property
    def units(self) -> list[tuple[list[attribution.Unit], list[attribution.Unit]]]:
        """The reference and hypothesis of each utterance, as units with syllables."""
        return [
            tuple(map(attribution.pair, (row.reference_tokens, row.hypothesis_tokens), self._pinyin(index)))
            for index, row in enumerate(self.scored)
        ]

    @functools.cached_property
    def positions(self) -> list[list[attribution.AlignedPosition]]:
        return [attribution.attribute(*pair, self.vocabularies) for pair in self.units]

    def _pinyin(self, index: int) -> tuple[Sequence[str], Sequence[str]]:
        if utterances.TOKEN_ERROR_RATE in self.measures:
            row = self.measures[utterances.TOKEN_ERROR_RATE][index]
            return row.reference_tokens, row.hypothesis_tokens
        pinyin = self.pronunciations.get(self.scored[index].utterance_id, "")
        return (utterances.split_tokens(pinyin),) * 2


def measure(split: ScoredSplit) -> dict:
    """Returns the contents of metrics.json: facts, causes, error rates (overall, by speaker, by group)."""
    values = {**split.facts, "num_utterances": len(split.scored)}
    if split.are_speakers_people:
        speakers = [utterance.speaker for utterance in split.scored if utterance.is_speaker_known]
        values["num_speakers"] = len(set(speakers))
        values["num_utterances_of_unknown_speakers"] = len(split.scored) - len(speakers)
    for name, scored in (*split.measures.items(), *breakdown.by_part(split.measures)):
        values[name] = _measure_overall(split, scored)
    if split.outputs and delays.OUTPUT in split.outputs[0]:
        values["emission_delay"] = delays.summarise(
            [delay for output in split.outputs for delay in output[delays.OUTPUT]]
        )
    if split.hotwords:
        rates = biasing.measure(split.hotwords, split.measure, split.scored, split.are_speakers_people)
        values.update({name: dataclasses.asdict(rate) for name, rate in rates.items()})
    if split.marked:
        values[WRITTEN_FORM] = _measure_overall(split, split.written_forms)
        values["marks"] = _measure_marks(split)
    values["attribution"] = attribution.count([position for row in split.positions for position in row])
    floors = {
        REFERENCE_PINYIN: split.on_reference_pinyin,
        N_BEST_ORACLE: choose_oracle(split.measure, split.scored, split.outputs),
        VOCABULARY: reach_all(split.scored, [pair[0] for pair in split.units], split.vocabularies),
    }
    values["floors"] = {name: _measure_overall(split, scored) for name, scored in floors.items() if scored}
    values["by_speaker"] = _table(split, breakdown.by_speaker)
    if split.group_pattern is not None:
        options = {"pattern": split.group_pattern, "are_speakers_people": split.are_speakers_people}
        values["by_group"] = _table(split, functools.partial(breakdown.by_group, **options))
    return values


def _measure_overall(split: ScoredSplit, scored: Scored) -> dict:
    return dataclasses.asdict(breakdown.overall(scored, split.are_speakers_people))


def _measure_marks(split: ScoredSplit) -> dict:
    counts = [punctuation_scores.score(text.reference, text.hypothesis) for text in split.marked]
    rates = punctuation_scores.measure(counts, *breakdown.clusterings(split.marked))
    num_others = len(split.scored) - len(counts)
    numbers = {"num_utterances": len(counts), "num_utterances_without_marks": num_others}
    return {**numbers, **{name: dataclasses.asdict(rate) for name, rate in rates.items()}}


def choose_oracle(measure: str, scored: Scored, outputs: Sequence[Mapping]) -> Scored:
    """Returns each utterance with the n-best hypothesis that has the fewest errors; on a tie, the first.

    The result is empty if the outputs have no n-best lists. `measure` must be one that compares transcripts.
    """
    if not outputs or "n_best" not in outputs[0]:
        return []
    return [_choose(measure, row, output["n_best"]) for row, output in zip(scored, outputs)]


def reach_all(
    scored: Scored,
    references: Sequence[Sequence[attribution.Unit]],
    vocabularies: attribution.KnownVocabularies,
) -> Scored:
    """Returns each utterance as if its only errors were substitutions of units that the vocabularies lack."""
    missing = [sum(not vocabularies.has(unit) for unit in units) for units in references]
    return [
        dataclasses.replace(row, edits=edit_distance.Edits(number, 0, 0, row.edits.reference_length))
        for row, number in zip(scored, missing)
    ]


def _choose(measure: str, row: utterances.ScoredUtterance, n_best: Sequence[Mapping]):
    texts = dict.fromkeys([row.hypothesis, *(hypothesis["transcript"] for hypothesis in n_best)])
    scored = [utterances.score(measure, row.utterance_id, row.speaker, row.reference, text) for text in texts]
    return min(scored, key=lambda candidate: candidate.edits.errors)


def _table(split: ScoredSplit, break_down) -> dict[str, dict[str, dict]]:
    rows = {}
    for name, scored in split.measures.items():
        for label, rate in break_down(scored).items():
            rows.setdefault(label, {})[name] = dataclasses.asdict(rate)
    return rows
