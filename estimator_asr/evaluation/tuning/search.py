"""Finds the decoding settings that lead to the fewest errors, choosing them step by step."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import types
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from estimator_asr.evaluation.tuning import calibration, trials
from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.saved_model import recogniser as recogniser_lib
from estimator_asr.exporting.saved_model import trained_model
from estimator_asr.inputs import splits
from estimator_asr.scoring import utterances
from tfrecord_builder.program import progress_bar

_NGRAM_WEIGHTS = (0.25, 0.5, 0.75, 1.0, 1.25)
_TOKEN_BONUSES = (0.0, 2.0, 4.0, 6.0)
_FINER = ((-0.12, 0.0), (0.12, 0.0), (0.0, -1.0), (0.0, 1.0))  # changes to the best (weight, bonus)
# Weights to try for the attention decoder and for the language model.
_RANKING_WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_WHISPER_WEIGHTS = (0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
_CHARACTER_NGRAM_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
_TOKENS, _CHARACTERS = utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE


class DecodingStep(NamedTuple):
    """A step of the search: the settings chosen so far, and how many errors result from them."""

    name: str
    settings: config_lib.DecodeConfig
    errors: dict[str, int]  # number of errors by measure; measures are keys of utterances.MEASURES


class TuningResult(NamedTuple):
    """Result of the search; the last step has the best settings."""

    steps: list[DecodingStep]
    num_labels: dict[str, int]  # number of labels in the references, by measure
    uncalibrated: Optional[calibration.Judged]  # confidences before calibration; None for a language model
    # The confidences of each half of the utterances, calibrated on the other half.
    fitted: Optional[calibration.Judged]
    whisper: Optional[types.SimpleNamespace] = None  # decoder from decoder_weights.compile_decoder


class Search:
    """A search for the decoding settings that are best on a trials.Bench; shows a progress bar."""

    def __init__(self, bench: trials.Bench, measures: tuple[str, ...], has_ngram: bool, has_decoder: bool):
        self._bench, self._measures = bench, measures
        self._has_ngram, self._has_decoder = has_ngram, has_decoder
        # Error count of each measure, keyed by the trial's (settings, with_language).
        self._errors: dict[tuple[config_lib.DecodeConfig, bool], dict[str, int]] = {}
        num_weights = 2 + len(_RANKING_WEIGHTS)  # weight 0, _RANKING_WEIGHTS, and the best weight again
        count = has_ngram * (len(_NGRAM_WEIGHTS) * len(_TOKEN_BONUSES) + len(_FINER) + 3)
        count += (has_decoder + (bench.language is not None)) * num_weights + 3
        self._progress = progress_bar.ProgressBar(total=count, desc="tune", unit=" trials")

    def run(self, whisper: Optional[trials.WhisperBench] = None) -> TuningResult:
        """Runs the steps of the search, and calibrates the confidences with the settings of the last step."""
        best = self._bench.untuned()
        steps = [self._step("greedy", dataclasses.replace(best, decoding="greedy"))]
        steps.append(self._step("beam search", best))
        if self._has_ngram:
            best = self._choose_ngram(best)
            steps.append(self._step("n-gram model", best))
        if self._has_decoder:
            best = self._choose_weight(best, "attention_weight", _TOKENS)
            steps.append(self._step("reranking by the attention decoder", best))
        if self._bench.language:
            best = self._choose_weight(best, "language_weight", _CHARACTERS)
            steps.append(self._step("reranking by the language model", best))
        if whisper:
            steps.append(self._choose_whisper(best, steps[-1].errors, whisper.list_choices(best)))
            best = steps[-1].settings
        # Transcripts from trials were not kept, to save memory, so the best settings are tried again.
        transcribed = whisper.run(best) if best.whisper_weight else self._bench.run(best, with_language=True)
        self._progress.update()
        edits = {measure: trials.sum_edits(transcribed, measure) for measure in self._measures}
        num_labels = {measure: total.reference_length for measure, total in edits.items()}
        has_language = self._bench.language is not None
        halves = [calibration.judge(transcribed[i::2], has_language) for i in (0, 1)]
        characters = calibration.join(halves)
        scale, offset = calibration.fit(characters)
        best = dataclasses.replace(best, confidence_scale=scale, confidence_offset=offset)
        self._progress.close()
        steps[-1] = steps[-1]._replace(settings=best)
        return TuningResult(steps, num_labels, characters, calibration.fit_crosswise(halves))

    def _step(self, name, settings):
        return DecodingStep(name, settings, self._count_errors(settings, with_language=True))

    def _choose_ngram(self, start):
        """Chooses the n-gram weight and the token bonus on a coarse grid, then refines the best pair."""
        grid = itertools.product(_NGRAM_WEIGHTS, _TOKEN_BONUSES)
        best = self._choose(start, [{}, *(_ngram(weight, bonus) for weight, bonus in grid)], _TOKENS)
        if not best.ngram_weight:
            return best
        finer = (_ngram(best.ngram_weight + weight, best.token_bonus + bonus) for weight, bonus in _FINER)
        return self._choose(best, [{}, *finer], _TOKENS)

    def _choose_weight(self, start, name: str, measure: str):
        return self._choose(start, [{name: weight} for weight in (0.0, *_RANKING_WEIGHTS)], measure)

    def _choose_whisper(
        self, start, before: dict[str, int], choices: Sequence[trials.Choice]
    ) -> DecodingStep:
        """Chooses the weights for the language model and Whisper's decoder together.

        Keeps the settings `start` unless some weights lead to fewer errors than `before`, the errors with
        `start`.
        """
        count, name = functools.cache(trials.count_edits), "reranking by Whisper's decoder"
        steps = [DecodingStep(name, start, before)]
        for language, whisper in itertools.product((0.0, *_RANKING_WEIGHTS), _WHISPER_WEIGHTS):
            errors = dict.fromkeys(self._measures, 0)
            for choice in choices:
                i = choice.choose(language, whisper)
                for measure in errors:
                    errors[measure] += count(measure, choice.references[measure], choice.texts[measure][i])
            weights = {"whisper_language_weight": language, "whisper_weight": whisper}
            steps.append(DecodingStep(name, dataclasses.replace(start, **weights), errors))
        return min(steps, key=lambda step: step.errors[_CHARACTERS])

    def _choose(self, start, changes: Iterable[dict], measure: str) -> config_lib.DecodeConfig:
        """Returns `start` with the change that leads to the fewest errors, the first such change on a tie."""
        with_language = measure == _CHARACTERS
        candidates = [dataclasses.replace(start, **change) for change in changes]
        return min(candidates, key=lambda settings: self._count_errors(settings, with_language)[measure])

    def _count_errors(self, settings, with_language):
        """Returns the number of errors by measure; cached, as the next step tries the best settings again."""
        key = settings, with_language or not self._bench.language
        if key not in self._errors:
            transcribed = self._bench.run(*key)
            errors = {measure: trials.sum_edits(transcribed, measure).errors for measure in self._measures}
            self._errors[key] = errors
        self._progress.update()
        return self._errors[key]


def _ngram(weight, bonus):
    return {"ngram_weight": weight, "token_bonus": bonus}


def search_language(
    trained: trained_model.TrainedModel, source: splits.Split, max_utterances: int
) -> TuningResult:
    """Tries n-gram weights for a language model; the result has two steps: weight 0 and the best weight.

    Raises errors.UserError if max_utterances is so small that no utterance is chosen.
    """
    batches = list(trials.read_batches(source, trained.model.config.input, max_utterances))
    untuned, steps = trials.untune(trained.model.decode), []
    for weight in progress_bar.ProgressBar(_CHARACTER_NGRAM_WEIGHTS, desc="tune", unit=" trials"):
        settings = dataclasses.replace(untuned, ngram_weight=weight)
        errors = sum(edits.errors for edits in _write_sentences(trained, settings, batches))
        steps.append(DecodingStep("n-gram model", settings, {_CHARACTERS: errors}))
    best = min(steps, key=lambda step: step.errors[_CHARACTERS])
    references = [text.decode("utf-8") for batch in batches for text in batch["transcript"]]
    num_labels = sum(map(len, map(utterances.split_characters, references)))
    first = steps[0]._replace(name="most probable characters")
    return TuningResult([first, best], {_CHARACTERS: num_labels}, None, None)


def _write_sentences(trained, settings, batches):
    """Predicts each utterance's characters with the settings; yields edit counts against the reference."""
    trained = trained._replace(model=dataclasses.replace(trained.model, decode=settings))
    recogniser = trained_model.build_recogniser(trained)
    with contextlib.closing(recogniser.session):
        for record, outputs in recogniser_lib.recognise_batches(recogniser, batches):
            reference = record["transcript"].decode("utf-8")
            yield utterances.score(_CHARACTERS, "", "", reference, outputs["transcript"]).edits
