"""The written form of recognised speech, and its comparison with the text as the corpus writes it."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from estimator_asr.scoring import punctuation_scores, utterances
from estimator_asr_runtime import written_form
from tfrecord_builder.data import marks

_load_form = functools.lru_cache(maxsize=1)(written_form.load)


def add(outputs: Mapping) -> dict:
    """Returns a recogniser's outputs for an utterance; adds `written` (see written_form.py) if missing."""
    return {"written": _load_form().write(outputs["punctuated"]), **outputs}


def compare(
    record: Mapping, outputs: Mapping
) -> tuple[punctuation_scores.MarkedText, utterances.ScoredUtterance]:
    """Returns the texts with marks, and the scored characters of the written form without marks.

    Args:
        record: `written` is the reference with marks; marks of any kind become those of the model.
        outputs: `punctuated` is the transcript with marks, and `written` also has numbers in digits.
    """
    about = [record[name].decode("utf-8") for name in ("utterance_id", "speaker")]
    reference = marks.unify(record["written"].decode("utf-8"))
    sides = ("".join(marks.split(text)[0]) for text in (reference, outputs["written"]))
    scored = utterances.score(utterances.CHARACTER_ERROR_RATE, *about, *sides)
    return punctuation_scores.MarkedText(*about, reference, outputs["punctuated"]), scored
