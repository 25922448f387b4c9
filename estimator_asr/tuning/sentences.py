"""Finds the weight with which an n-gram model of characters corrects a language model."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np
import tqdm

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import input_fn, splits
from estimator_asr.saved_model import trained_model
from estimator_asr.scoring import utterances
from estimator_asr.tuning import posteriors, search, trials

_MEASURE = utterances.CHARACTER_ERROR_RATE
_NGRAM_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


def tune(trained: trained_model.TrainedModel, source: splits.Split, max_utterances: int) -> search.Found:
    """Returns the errors without the n-gram model of the directory, and with it at its best weight.

    Raises:
        errors.UserError: none of the utterances is chosen.
    """
    batches = list(input_fn.read_sample(source, trained.model.config.input, max_utterances))
    posteriors.check_chosen(batches, source, max_utterances)
    untuned, steps = trials.untune(trained.model.decode), []
    for weight in tqdm.tqdm(_NGRAM_WEIGHTS, desc="tune", unit=" trials", disable=None):
        settings = dataclasses.replace(untuned, ngram_weight=weight)
        errors = {_MEASURE: count_errors(trained, settings, batches)}
        steps.append(search.Step("n-gram model", settings, errors))
    best = min(steps, key=lambda step: step.errors[_MEASURE])
    num_labels = sum(
        len(utterances.split_characters(text.decode("utf-8")))
        for batch in batches
        for text in batch["transcript"]
    )
    first = steps[0]._replace(name="most probable characters")
    return search.Found([first, best], {_MEASURE: num_labels}, None, None)


def count_errors(
    trained: trained_model.TrainedModel,
    settings: config_lib.DecodeConfig,
    batches: Sequence[dict[str, np.ndarray]],
) -> int:
    """Returns the wrong characters of all batches, which are elements of input_fn."""
    trained = trained._replace(model=dataclasses.replace(trained.model, decode=settings))
    recogniser = trained_model.build_recogniser(trained)
    with contextlib.closing(recogniser.session):
        return sum(
            utterances.score(_MEASURE, "", "", reference.decode("utf-8"), hypothesis).edits.errors
            for batch in batches
            for reference, hypothesis in zip(batch["transcript"], recogniser.run(batch)["transcript"])
        )
