from __future__ import annotations

import numpy as np
import pytest

from estimator_asr.scoring import error_rate, expanded_percentile


@pytest.mark.parametrize(
    ("degrees", "expected", "tolerance"),
    [(1, 12.7062, 0.12), (2, 4.3027, 0.01), (4, 2.7764, 1e-3), (9, 2.2622, 1e-4), (99, 1.9842, 1e-4)],
)
def test_quantiles_of_t_as_tables_have_them(degrees, expected, tolerance):
    assert expanded_percentile.t_quantile(0.975, degrees) == pytest.approx(expected, rel=tolerance)


def test_many_clusters_need_no_expansion():
    errors, lengths = np.arange(10_000) % 3, np.full(10_000, 10)
    found = expanded_percentile.num_deviations(0.95, errors, lengths, [np.arange(10_000)], spread=1.0)
    assert found == pytest.approx(1.96, abs=1e-3)


def test_ten_clusters_have_the_quantile_of_nine_degrees_and_the_unbiased_deviation():
    errors, lengths = np.array([0, 1, 2, 3, 4] * 2), np.full(10, 10)
    spread = float(np.std(errors)) / 10**0.5 / 10  # of the resampled rates, exactly
    found = expanded_percentile.num_deviations(0.95, errors, lengths, [np.arange(10)], spread)
    assert found == pytest.approx(2.2622 * (10 / 9) ** 0.5, rel=1e-4)


def test_speakers_and_sentences_add_up():
    """Errors that differ by speaker and by sentence alone, without noise: the sum of both variances."""
    speaker, sentence = (grid.ravel() for grid in np.meshgrid(np.arange(20), np.arange(20), indexing="ij"))
    errors, lengths = (speaker % 2) + sentence // 10, np.full(400, 10)
    both, one = (
        expanded_percentile.num_deviations(0.95, errors, lengths, clusters, spread=1e-9)
        for clusters in ([speaker, sentence], [speaker])
    )
    assert both == pytest.approx(2**0.5 * one, rel=0.03)


def test_resamples_that_spread_more_than_the_standard_error_stay_as_they_are():
    errors, lengths = np.array([0, 1, 2, 3, 4] * 2), np.full(10, 10)
    found = expanded_percentile.num_deviations(0.95, errors, lengths, [np.arange(10)], spread=1.0)
    assert found == pytest.approx(1.96, abs=1e-3)


def test_no_difference_between_clusters_has_an_interval_without_width():
    errors, lengths, clusters = np.full(8, 2), np.full(8, 10), [np.arange(8)]
    assert error_rate.interval(error_rate.resample(errors, lengths, clusters)) == (0.2, 0.2)
