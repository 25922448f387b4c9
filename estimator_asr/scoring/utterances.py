"""Scored utterances: reference and hypothesis, their tokens (strings, not ids) and their edits."""

from __future__ import annotations

import dataclasses
import re

from estimator_asr.scoring import edit_distance
from tfrecord_builder.data import dataset_info

TOKEN_ERROR_RATE = "token_error_rate"
CHARACTER_ERROR_RATE = "character_error_rate"
_CHARACTER = re.compile(r"<unk>|\S")  # a language model outputs <unk> for unknown characters


@dataclasses.dataclass(frozen=True)
class ScoredUtterance:
    """A reference and a hypothesis, as texts and as the tokens that are compared."""

    utterance_id: str
    speaker: str
    reference: str
    hypothesis: str
    reference_tokens: tuple[str, ...]
    hypothesis_tokens: tuple[str, ...]
    edits: edit_distance.Edits

    @property
    def is_speaker_known(self) -> bool:
        return dataset_info.is_known_speaker(self.speaker)


def split_tokens(text: str) -> tuple[str, ...]:
    """Splits a text at whitespace; for example, `ni3 hao3` has two tokens."""
    return tuple(text.split())


def split_characters(text: str) -> tuple[str, ...]:
    """Splits a text into characters, without whitespace; `<unk>` is a single character."""
    return tuple(_CHARACTER.findall(text))


MEASURES = {TOKEN_ERROR_RATE: split_tokens, CHARACTER_ERROR_RATE: split_characters}


def score(measure: str, utterance_id: str, speaker: str, reference: str, hypothesis: str) -> ScoredUtterance:
    """Compares two texts; `measure`, a key of MEASURES, determines how they are split into tokens."""
    split = MEASURES[measure]
    tokens = split(reference), split(hypothesis)
    edits = edit_distance.count_edits(*tokens)
    return ScoredUtterance(utterance_id, speaker, reference, hypothesis, *tokens, edits)
