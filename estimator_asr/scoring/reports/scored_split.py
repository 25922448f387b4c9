"""A split, recognised and scored: what a report is made of."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_asr.scoring import attribution, utterances
from tfrecord_builder.data import recordings


@dataclasses.dataclass(frozen=True)
class ScoredSplit:
    """A split, recognised and scored.

    Attributes:
        facts: what was evaluated: model, checkpoint, data, split.
        measures: utterances by the keys of utterances.MEASURES; the last one is attributed and shown.
        group_pattern: as for breakdown.by_group; None for no groups.
        are_speakers_people: as for breakdown.overall.
        outputs: of each utterance, for hypotheses.jsonl.
        hotwords: as for biasing.measure.
        pronunciations: what the language model was given, by utterance id; empty for an acoustic model.
        vocabularies: of the models.
        on_reference_pinyin: what the language model writes for the references; empty where there is none.
        recordings: by utterance id; those that can be read are heard in the report.
        command: that makes the report again.
    """

    facts: Mapping[str, object]
    measures: Mapping[str, Sequence[utterances.ScoredUtterance]]
    group_pattern: Optional[str] = None
    are_speakers_people: bool = True
    outputs: Sequence[Mapping] = ()
    hotwords: Sequence[str] = ()
    pronunciations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vocabularies: attribution.Vocabularies = attribution.Vocabularies()
    on_reference_pinyin: Sequence[utterances.ScoredUtterance] = ()
    recordings: Mapping[str, recordings.Recording] = dataclasses.field(default_factory=dict)
    command: str = ""

    @property
    def measure(self) -> str:
        """The name of the measure that is attributed."""
        return list(self.measures)[-1]

    @property
    def scored(self) -> Sequence[utterances.ScoredUtterance]:
        """The utterances of that measure."""
        return self.measures[self.measure]

    @functools.cached_property
    def units(self) -> list[tuple[list[attribution.Unit], list[attribution.Unit]]]:
        """Reference and hypothesis of each utterance with their syllables."""
        return [
            tuple(map(attribution.pair, (row.reference_tokens, row.hypothesis_tokens), self._spoken(index)))
            for index, row in enumerate(self.scored)
        ]

    @functools.cached_property
    def positions(self) -> list[list[attribution.Position]]:
        """The aligned positions of each utterance."""
        return [attribution.attribute(*pair, self.vocabularies) for pair in self.units]

    def _spoken(self, index: int) -> tuple[Sequence[str], Sequence[str]]:
        if utterances.TOKEN_ERROR_RATE in self.measures:
            row = self.measures[utterances.TOKEN_ERROR_RATE][index]
            return row.reference_tokens, row.hypothesis_tokens
        given = utterances.split_tokens(self.pronunciations.get(self.scored[index].utterance_id, ""))
        return given, given
