"""Finds the settings of decoding that make the fewest errors, one after the other."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import tqdm

from estimator_asr import config as config_lib
from estimator_asr.scoring import utterances
from estimator_asr.tuning import calibration, trials

_NGRAM_WEIGHTS = (0.2, 0.4, 0.6, 0.8, 1.0)
_TOKEN_BONUSES = (0.0, 1.5, 3.0, 4.5)
_FINER = ((-0.1, 0.0), (0.1, 0.0), (0.0, -0.5), (0.0, 0.5))  # steps of both from the best
_LANGUAGE_WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


class Step(NamedTuple):
    """A step of decoding: all settings up to it, and the errors that they make."""

    name: str
    settings: config_lib.DecodeConfig
    errors: dict[str, int]  # by measure, a key of utterances.MEASURES


class Found(NamedTuple):
    """The last of the steps has the settings that were found."""

    steps: list[Step]
    judged: calibration.Judged  # confidences before they were fitted


class Search:
    """Tries settings on a bench, with a progress bar."""

    def __init__(self, bench: trials.Bench, measures: tuple[str, ...], has_ngram: bool):
        self._bench, self._measures, self._has_ngram = bench, measures, has_ngram
        count = 2 + has_ngram * (len(_NGRAM_WEIGHTS) * len(_TOKEN_BONUSES) + len(_FINER) + 1)
        count += (len(_LANGUAGE_WEIGHTS) + 1) * (bench.language is not None) + 1
        self._progress = tqdm.tqdm(total=count, desc="tune", unit=" trials", disable=None)

    def run(self) -> Found:
        """Returns what each step gives, and fits the confidences of the last one."""
        best = config_lib.DecodeConfig()
        steps = [self._step("greedy", dataclasses.replace(best, decoding="greedy"))]
        steps.append(self._step("beam search", best))
        if self._has_ngram:
            best = self._choose_ngram(best)
            steps.append(self._step("n-gram model", best))
        if self._bench.language:
            best = self._choose_language(best)
            steps.append(self._step("choice by the language model", best))
        judged = calibration.judge(self._run(best, with_language=True))
        scale, offset = calibration.fit(judged)
        best = dataclasses.replace(best, confidence_scale=scale, confidence_offset=offset)
        self._progress.close()
        return Found([*steps[:-1], steps[-1]._replace(settings=best)], judged)

    def _step(self, name: str, settings: config_lib.DecodeConfig) -> Step:
        transcribed = self._run(settings, with_language=True)
        return Step(name, settings, {each: trials.count_errors(transcribed, each) for each in self._measures})

    def _choose_ngram(self, start):
        """Chooses on a coarse grid, then among its neighbours on a finer one."""
        grid = itertools.product(_NGRAM_WEIGHTS, _TOKEN_BONUSES)
        best = self._choose(start, ({"ngram_weight": weight, "token_bonus": bonus} for weight, bonus in grid))
        weight, bonus = best.ngram_weight, best.token_bonus
        finer = ({"ngram_weight": weight + a, "token_bonus": bonus + b} for a, b in _FINER)
        return self._choose(best, [{}, *finer])

    def _choose(self, start, changes: Iterable[dict]) -> config_lib.DecodeConfig:
        """Returns the settings with the fewest wrong tokens; the first of several."""
        candidates = [dataclasses.replace(start, **change) for change in changes]
        return min(candidates, key=lambda each: self._count(each, utterances.TOKEN_ERROR_RATE))

    def _choose_language(self, start):
        weights = (0.0, *_LANGUAGE_WEIGHTS)
        candidates = [dataclasses.replace(start, language_weight=weight) for weight in weights]
        return min(candidates, key=lambda each: self._count(each, utterances.CHARACTER_ERROR_RATE))

    def _count(self, settings, measure) -> int:
        with_language = measure == utterances.CHARACTER_ERROR_RATE
        return trials.count_errors(self._run(settings, with_language), measure)

    def _run(self, settings, with_language) -> list[trials.Transcribed]:
        transcribed = self._bench.run(settings, with_language)
        self._progress.update()
        return transcribed
