"""The written form of recognised speech, and its comparison with the text as the corpus writes it."""

from __future__ import annotations

from collections.abc import Mapping

from estimator_asr.scoring import punctuation_scores, utterances
from tfrecord_builder.data import marks


def add(outputs: Mapping, form) -> dict:
    """Returns a recogniser's outputs for an utterance; adds `written` (see LoadedVersion.form) if missing."""
    return {"written": form.write(outputs["punctuated"]), **outputs}


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
