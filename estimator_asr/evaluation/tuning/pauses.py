"""Chooses the weight of pauses for adding punctuation marks to recognised speech."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.evaluation.tuning import trials
from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.saved_model import cascade, marking, recogniser, trained_model
from estimator_asr.inputs import splits
from estimator_asr.models import punctuation as punctuation_lib
from estimator_asr.models.tasks import tasks
from estimator_asr.scoring import punctuation_scores
from tfrecord_builder import errors
from tfrecord_builder.data import marks

_WEIGHTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
_OFFSETS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)  # seconds


class PausedText(NamedTuple):
    """A recognised utterance.

    Attributes:
        reference: transcript with marks.
        characters: recognised characters.
        pauses: silence after each character in seconds, float32 [num_characters].
        scores: see punctuation.score; float32 [num_characters, len(marks.MARKS)].
    """

    reference: str
    characters: list[str]
    pauses: np.ndarray
    scores: np.ndarray

    def punctuate(self, config: config_lib.DecodeConfig) -> str:
        """Returns the text with marks, as an export with these settings writes it."""
        is_last = np.float32(np.arange(len(self.characters)) == len(self.characters) - 1)
        scores = marking.weigh_pauses(self.scores, self.pauses, is_last, config)
        return "".join(c + marks.MARKS[i] for c, i in zip(self.characters, scores.argmax(axis=1)))


class PauseTuning(NamedTuple):
    """The best settings, and the F1 of ，。？ as a group: without pauses, and with these settings."""

    settings: config_lib.DecodeConfig
    f1_without: float
    f1: float
    num_utterances: int

    def __str__(self) -> str:
        return (
            f"F1 of ，。？ on {self.num_utterances} utterances: {100 * self.f1_without:.1f} % without "
            f"pauses, {100 * self.f1:.1f} % with pause_weight {self.settings.pause_weight:g}, "
            f"pause_offset {self.settings.pause_offset:g} s"
        )


def choose(
    punctuation: trained_model.TrainedModel,
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    source: splits.Split,
    max_utterances: int,
) -> PauseTuning:
    """Recognises utterances of a split, and returns the settings with the highest F1 for their marks.

    Raises errors.UserError if no utterance has a transcript with marks.
    """
    texts = list(_recognise(punctuation, acoustic, language, source, max_utterances))
    return choose_settings(punctuation.model.decode, texts)


def choose_settings(saved: config_lib.DecodeConfig, texts: Sequence[PausedText]) -> PauseTuning:
    """Returns the saved settings with the weight and offset of pauses that give the highest F1."""
    if not texts:
        raise errors.UserError(
            "tune: no transcript in --data_dir has punctuation marks, which --punctuation_model_dir needs; "
            "build the data again with this or a later version, from transcripts with marks"
        )
    results = []
    for weight, offset in [(0.0, 0.0), *itertools.product(_WEIGHTS, _OFFSETS)]:
        config = dataclasses.replace(saved, pause_weight=weight, pause_offset=offset)
        counts = [punctuation_scores.score(text.reference, text.punctuate(config)) for text in texts]
        results.append((config, punctuation_scores.f1(counts, punctuation_scores.COMMAS_STOPS_QUESTIONS)))
    config, highest = max(results, key=lambda result: result[1])
    return PauseTuning(config, results[0][1], highest, len(texts))


def _recognise(punctuation, acoustic, language, source, max_utterances) -> Iterator[PausedText]:
    source = dataclasses.replace(source, has_marks=True)
    built = trained_model.build_recogniser(acoustic, language)
    score = _build(punctuation)
    with contextlib.closing(built.session), contextlib.closing(score.session):
        batches = trials.read_batches(source, acoustic.model.config.input, max_utterances)
        for record, outputs in recogniser.recognise_batches(built, batches):
            if record["written"] and outputs["characters"]:
                characters = [item["character"] for item in outputs["characters"]]
                ids = np.int32([punctuation.model.characters.encode(characters)])
                scores = score.fetch({"character_ids": ids, "num_characters": np.int32([ids.size])})["scores"]
                reference = marks.unify(record["written"].decode("utf-8"))
                pauses = recogniser.find_pauses(outputs["characters"])
                yield PausedText(reference, characters, pauses, scores[0])


def _build(punctuation: trained_model.TrainedModel) -> recogniser.Recogniser:
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        features = tasks.for_model(punctuation.model).placeholders()
        scores = punctuation_lib.score(tasks.for_model(punctuation.model).build(features))
        cascade.restore(session, punctuation.model, punctuation.checkpoint)
    return recogniser.Recogniser(session, features, {"scores": scores})
