"""How often the 95 % interval of an error rate covers the true one, where speakers and sentences differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import coverage


def utterances(design):
    return [np.arange(design.num_speakers * design.num_each)]


def slack(repetitions):
    """Three standard deviations of a fraction of 95 %."""
    return 3 * math.sqrt(0.95 * 0.05 / repetitions)


@pytest.mark.long
def test_the_interval_covers_the_true_rate_and_a_bootstrap_over_utterances_does_not():
    covered, width = coverage.cover(coverage.ALL_BY_ALL, coverage.ALL_BY_ALL.clusterings(), 100, seed=0)
    assert abs(covered - 0.95) <= slack(100)
    naive, narrow = coverage.cover(coverage.ALL_BY_ALL, utterances(coverage.ALL_BY_ALL), 50, seed=0)
    assert naive < 0.95 - 3 * slack(50) and narrow < width / 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_coverage_of_a_thousand_evaluations():
    covered, _ = coverage.cover(coverage.ALL_BY_ALL, coverage.ALL_BY_ALL.clusterings(), 1000, seed=1)
    assert coverage.LOWEST <= covered <= coverage.HIGHEST
    naive, _ = coverage.cover(coverage.ALL_BY_ALL, utterances(coverage.ALL_BY_ALL), 200, seed=1)
    assert naive < 0.5


@pytest.mark.long
@pytest.mark.parametrize("design", coverage.DESIGNS[1:6], ids=lambda design: design.name)
def test_no_other_design_is_covered_too_rarely(design):
    covered, _ = coverage.cover(design, design.clusterings(), 100, seed=0)
    assert covered >= 0.95 - slack(100)


def test_the_simulated_rate_is_the_true_one():
    design = coverage.Design("many", 1000, 50, 1000)
    edits = coverage.simulate(design, np.random.default_rng(0))
    assert len(edits) == 50_000 and {each.reference_length for each in edits} == set(range(5, 21))
    rate = sum(each.errors for each in edits) / sum(each.reference_length for each in edits)
    assert rate == pytest.approx(coverage.RATE, rel=0.05)


def test_designs():
    speakers, sentences = coverage.Design("three by two", 3, 2, 2).clusterings()
    assert speakers.tolist() == [0, 0, 1, 1, 2, 2] and sentences.tolist() == [0, 1] * 3
    assert coverage.Design("own", 2, 2, 4).clusterings()[1].tolist() == [0, 1, 2, 3]
