"""How far the percentile interval of a bootstrap over few clusters must reach.

The percentiles of resamples assume a known standard error: with few clusters the interval is too narrow. It
is expanded as by Hesterberg ("What teachers should know about the bootstrap", American Statistician 69(4),
2015): the quantile of the normal distribution becomes that of Student's t, times how much the unbiased
standard error exceeds that of the resamples. Standard error and degrees of freedom (clusters of the smallest
clustering, less one) are those of Cameron, Gelbach and Miller ("Robust inference with multiway clustering",
Journal of Business and Economic Statistics 29(2), 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np


def num_deviations(
    confidence: float, errors: np.ndarray, lengths: np.ndarray, clusters: Sequence[np.ndarray], spread: float
) -> float:
    """Returns the standard deviations of a normal distribution that stand for the confidence.

    Args:
        confidence: probability that the interval covers the true rate, e.g. 0.95.
        errors: of each utterance, or the difference of those of two systems.
        lengths: number of reference tokens of each utterance.
        clusters: one or two clusterings; the number of each utterance's cluster, two or more, from 0.
        spread: standard deviation of the resampled rates. Where it is so wide that it makes up for few
            clusters, the result is the quantile of the normal distribution.
    """
    residuals = errors - lengths * (errors.sum() / lengths.sum())
    variances, counts = zip(*(_variance(residuals, ids) for ids in clusters))
    total = max(variances)  # the sum may be below by chance
    if len(clusters) == 2:  # both have what is an utterance's own
        utterances = np.unique(np.stack(clusters), axis=1, return_inverse=True)[1].ravel()
        total = max(total, sum(variances) - _variance(residuals, utterances)[0])
    probability = (1.0 + confidence) / 2.0
    expansion = float(np.sqrt(total) / lengths.sum()) / spread if spread else 0.0
    return max(NormalDist().inv_cdf(probability), t_quantile(probability, min(counts) - 1) * expansion)


def t_quantile(probability: float, degrees: float) -> float:
    """Returns a quantile of Student's t (Abramowitz and Stegun, 26.7.5).

    Off by 0.1 % at 4 degrees of freedom, 1 % at 2, 11 % at 1.
    """
    x, n = NormalDist().inv_cdf(probability), 4.0 * degrees
    terms = (
        x,
        (x**3 + x) / n,
        (5 * x**5 + 16 * x**3 + 3 * x) / (6 * n**2),
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (6 * n**3),
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / (360 * n**4),
    )
    return sum(terms)


def _variance(residuals, ids) -> tuple[float, int]:
    """Returns the variance of the sum of the residuals of independent clusters, and their number."""
    count = int(ids.max()) + 1
    return count / (count - 1) * float(np.sum(np.bincount(ids, weights=residuals) ** 2)), count
