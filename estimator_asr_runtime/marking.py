"""Adds punctuation marks to a transcript, and writes its numbers in digits.

Equivalent to punctuate in estimator_asr/exporting/saved_model/marking.py, one utterance at a time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import backends, joining, model_json, written_form

_UNKNOWN_ID, _SPACE = 0, "<space>"  # no mark follows a space


class Punctuator(NamedTuple):
    """The punctuation model of an export."""

    graph: backends.Graph
    character_ids: Mapping[str, int]
    settings: model_json.Punctuation
    joining: joining.Joining  # rules for joining characters into a transcript
    form: written_form.WrittenForm

    def punctuate(self, result: Mapping) -> dict:
        """Adds `punctuated`, `written` and each character's `mark` to a result of Recogniser.recognise."""
        items = result["characters"]
        following = self._find_marks(items) if items else []
        marked = [{**item, "mark": mark} for item, mark in zip(items, following)]
        text = self.joining.join(item["character"] + item["mark"] for item in marked)
        text = re.sub(f"([{''.join(self.settings.marks)}]) +", r"\1", text)  # no space follows a mark
        return {**result, "characters": marked, "punctuated": text, "written": self.form.write(text)}

    def _find_marks(self, items: Sequence[Mapping]) -> list[str]:
        """Returns the mark after each character, or "" where there is none."""
        ids = [self.character_ids.get(item["character"], _UNKNOWN_ID) for item in items]
        inputs = {"character_ids": np.int32([ids]), "num_characters": np.int32([len(ids)])}
        scores = self.graph.run(inputs)["scores"][0].copy()
        starts, ends = (np.float32([item[name] for item in items]) for name in ("start", "end"))
        scores[:-1, 1:] += self._weigh_pauses(starts[1:] - ends[:-1])[:, None]  # class 0 stands for no mark
        scores[-1, 0] = -np.inf  # a mark always follows the last character
        following = [self.settings.marks[index] for index in np.argmax(scores, axis=1)]
        return ["" if item["character"] == _SPACE else mark for item, mark in zip(items, following)]

    def _weigh_pauses(self, pauses: np.ndarray) -> np.ndarray:
        settings = self.settings
        clipped = np.clip(pauses, np.float32(0), np.float32(settings.longest_pause))
        return np.float32(settings.pause_weight) * (clipped - np.float32(settings.pause_offset))
