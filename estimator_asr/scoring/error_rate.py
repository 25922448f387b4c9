"""Error rates with confidence intervals that respect which utterances belong together.

A rate is the sum of edits over the sum of reference lengths; insertions can push it above 1.

One sentence read by ten speakers is not ten samples, so the interval comes from the pigeonhole bootstrap
(Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 2007): every resample samples the
clusters of each clustering (speakers, sentences) with replacement, and an utterance counts as often as its
speaker was sampled times as often as its sentence was.

With ten speakers the middle 95 % of the resampled rates covers the true rate in 93 % of the samples, so the
interval spans a little more of them (num_deviations); benchmarks/coverage.py measures it. It errs on the wide
side, by at most a factor of sqrt(3) (each sentence read once). With one or two speakers it cannot know how
much speakers differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.scoring import edit_distance

CONFIDENCE = 0.95
_NUM_RESAMPLES = 1000
_RESAMPLES_AT_ONCE = 50  # keeps the weights of 100,000 utterances under 50 MB
_NO_EDITS = edit_distance.Edits(0, 0, 0, 0)
_RULE_OF_THREE = 3.0  # no event in n trials: at 95 % its probability is below 3 / n


@dataclasses.dataclass(frozen=True)
class ErrorRate:
    rate: Optional[float]  # errors / reference_length; None where the references have no tokens
    errors: int
    substitutions: int
    insertions: int
    deletions: int
    reference_length: int
    # At 95 %; None where a single cluster leaves nothing to resample.
    confidence_interval: Optional[tuple[float, float]]


class Resampled(NamedTuple):
    """Rates of resamples, and how many of their standard deviations the interval reaches to each side."""

    rates: np.ndarray  # float64 [num_resamples]
    num_deviations: float  # as if they were normally distributed


def measure(
    edits: Sequence[edit_distance.Edits], clusterings: Sequence[Sequence[Hashable]], seed: int = 0
) -> ErrorRate:
    """Returns the error rate of utterances, given their edits, with its interval.

    Clusterings are e.g. (speakers, sentences), each with one label per utterance.
    """
    totals = edit_distance.Edits(*(sum(column) for column in zip(*edits))) if edits else _NO_EDITS
    if not totals.reference_length:
        return ErrorRate(None, totals.errors, *totals, None)
    counts = [each.errors + each.reference_length > 0 for each in edits]  # the others say nothing
    errors = np.array([each.errors for each in edits])[counts]
    lengths = np.array([each.reference_length for each in edits])[counts]
    clusterings = [np.asarray(labels)[counts] for labels in clusterings]
    limits = _find_limits(errors, lengths, clusterings, seed)
    return ErrorRate(totals.errors / totals.reference_length, totals.errors, *totals, limits)


def _find_limits(errors, lengths, clusterings, seed) -> Optional[tuple[float, float]]:
    clusters = _number(clusterings)
    if clusters and not errors.any():
        # Rule of three, each sentence counted once; resampled zeros would claim certainty.
        sentences = clusters[-1]
        readings_per_sentence = sentences.size / (sentences.max() + 1)
        return 0.0, float(_RULE_OF_THREE * readings_per_sentence / lengths.sum())
    resampled = resample(errors, lengths, clusterings, seed)
    return None if resampled is None else interval(resampled)


def _number(clusterings) -> list[np.ndarray]:
    """Returns the number of each label, without clusterings of a single cluster, which is in every sample."""
    clusters = [np.unique(np.asarray(labels), return_inverse=True)[1] for labels in clusterings]
    return [ids for ids in clusters if ids.max() > 0]


def resample(
    errors: np.ndarray, lengths: np.ndarray, clusterings: Sequence[Sequence[Hashable]], seed: int = 0
) -> Optional[Resampled]:
    """Returns the rates of resamples; None where there is nothing to resample.

    `errors` are those of each utterance, or the difference of two systems; `lengths` are numbers of reference
    tokens.
    """
    clusters = _number(clusterings)
    if not clusters:
        return None
    rates = np.concatenate(list(_resampled_rates(errors, lengths, clusters, np.random.default_rng(seed))))
    rates = rates[np.isfinite(rates)]
    spread = float(np.std(rates))
    return Resampled(rates, num_deviations(CONFIDENCE, errors, lengths, clusters, spread))


def interval(resampled: Resampled) -> tuple[float, float]:
    """Returns the limits of the 95 % interval."""
    tail = 100.0 * NormalDist().cdf(-resampled.num_deviations)
    low, high = np.percentile(resampled.rates, [tail, 100.0 - tail])
    return float(low), float(high)


def num_deviations(
    confidence: float, errors: np.ndarray, lengths: np.ndarray, clusters: Sequence[np.ndarray], spread: float
) -> float:
    """Returns how many standard deviations of resampled rates an interval reaches to each side.

    The percentiles of resamples assume a known standard error: with few clusters the interval is too narrow.
    It is expanded as by Hesterberg ("What teachers should know about the bootstrap", American Statistician
    69(4), 2015): the quantile of the normal distribution becomes that of Student's t, times how much the
    unbiased standard error exceeds that of the resamples. Standard error and degrees of freedom (clusters of
    the smallest clustering, less one) are those of Cameron, Gelbach and Miller ("Robust inference with
    multiway clustering", Journal of Business and Economic Statistics 29(2), 2011).

    Args:
        confidence: probability that the interval covers the true rate, e.g. 0.95.
        errors, lengths: as for `resample`.
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


def _resampled_rates(errors, lengths, clusters, rng):
    counts = np.stack([errors, lengths], 1).astype(np.float64)
    for _ in range(_NUM_RESAMPLES // _RESAMPLES_AT_ONCE):
        weights = np.ones((_RESAMPLES_AT_ONCE, errors.size))  # [resamples, utterances]
        for ids in clusters:
            weights *= _draw(int(ids.max()) + 1, rng)[:, ids]
        # Not a product of BLAS, whose threads wait for each other longer than they multiply.
        sums = np.einsum("ru,uk->kr", weights, counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            yield sums[0] / sums[1]


def _draw(count, rng):
    """Returns how often each of so many clusters is in each resample."""
    drawn = rng.integers(count, size=(_RESAMPLES_AT_ONCE, count))
    drawn += count * np.arange(_RESAMPLES_AT_ONCE)[:, np.newaxis]
    return np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
