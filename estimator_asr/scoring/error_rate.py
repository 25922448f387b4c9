"""Error rates with confidence intervals that account for shared speakers and sentences.

A rate is the sum of edits divided by the sum of reference lengths; insertions can push it above 1.

One sentence read by ten speakers is not ten independent samples. So the interval comes from the pigeonhole
bootstrap (Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 2007). In every resample, the
clusters of each clustering (speakers, sentences) are sampled with replacement. The weight of an utterance is
the number of times that its speaker was sampled, multiplied by the number of times that its sentence was
sampled.

With ten speakers, the middle 95 % of the resampled rates covers the true rate only 93 % of the time, so the
interval is made slightly wider (num_deviations); benchmarks/coverage.py measures its true coverage. The
interval tends to be too wide, by a factor of up to sqrt(3) (reached if each sentence is read once). If there
are only one or two speakers, the interval cannot account for how much speakers differ.
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
_RULE_OF_THREE = 3.0  # an event that never occurs in n trials has a probability of at most 3 / n (95 % limit)


@dataclasses.dataclass(frozen=True)
class ErrorRate:
    rate: Optional[float]  # errors / reference_length; None if the references have no tokens
    errors: int
    substitutions: int
    insertions: int
    deletions: int
    reference_length: int
    # 95 % interval; None if each clustering has a single cluster, so that nothing can be resampled.
    confidence_interval: Optional[tuple[float, float]]


class Resampled(NamedTuple):
    """Error rates of resamples, and the width of their interval."""

    rates: np.ndarray  # float64 [num_resamples]
    num_deviations: float  # half the interval's width, in standard deviations of a normal distribution


def measure(
    edits: Sequence[edit_distance.Edits], clusterings: Sequence[Sequence[Hashable]], seed: int = 0
) -> ErrorRate:
    """Returns the error rate and its interval; `edits` has one item per utterance.

    Each clustering, such as the speakers or the sentences, has one label per utterance.
    """
    totals = edit_distance.Edits(*(sum(column) for column in zip(*edits))) if edits else _NO_EDITS
    if not totals.reference_length:
        return ErrorRate(None, totals.errors, *totals, None)
    # Utterances that have neither reference tokens nor errors do not change the rate.
    is_used = [row.errors + row.reference_length > 0 for row in edits]
    errors = np.array([row.errors for row in edits])[is_used]
    lengths = np.array([row.reference_length for row in edits])[is_used]
    clusterings = [np.asarray(labels)[is_used] for labels in clusterings]
    limits = _find_limits(errors, lengths, clusterings, seed)
    return ErrorRate(totals.errors / totals.reference_length, totals.errors, *totals, limits)


def _find_limits(errors, lengths, clusterings, seed) -> Optional[tuple[float, float]]:
    clusters = _number(clusterings)
    if clusters and not errors.any():
        # The rule of three, counting each sentence once: resampled zeros would give an interval of width 0.
        sentences = clusters[-1]
        readings_per_sentence = sentences.size / (sentences.max() + 1)
        return 0.0, float(_RULE_OF_THREE * readings_per_sentence / lengths.sum())
    resampled = resample(errors, lengths, clusterings, seed)
    return None if resampled is None else interval(resampled)


def _number(clusterings) -> list[np.ndarray]:
    """Returns each clustering as one cluster number per utterance; drops clusterings with one cluster."""
    clusters = [np.unique(np.asarray(labels), return_inverse=True)[1] for labels in clusterings]
    return [ids for ids in clusters if ids.max() > 0]


def resample(
    errors: np.ndarray, lengths: np.ndarray, clusterings: Sequence[Sequence[Hashable]], seed: int = 0
) -> Optional[Resampled]:
    """Returns the rates of resamples; None if there is nothing to resample.

    `errors` holds the number of errors in each utterance, or the difference in errors between two systems;
    `lengths` holds the number of reference tokens in each utterance.
    """
    clusters = _number(clusterings)
    if not clusters:
        return None
    rates = _resample_rates(errors, lengths, clusters, seed)
    rates = rates[np.isfinite(rates)]
    spread = float(np.std(rates))
    return Resampled(rates, num_deviations(CONFIDENCE, errors, lengths, clusters, spread))


def resample_difference(
    a: Sequence[np.ndarray], b: Sequence[np.ndarray], clusterings: Sequence[Sequence[Hashable]]
) -> Optional[Resampled]:
    """Returns the rates of system B minus those of system A in the same resamples; see `resample`.

    `a` and `b` each hold the numerator and the denominator of the rate in each utterance. Unlike in
    `resample`, the systems may have different denominators, as for F1; the standard error is that of the
    linearised difference.
    """
    clusters = _number(clusterings)
    if not clusters or not (a[1].any() and b[1].any()):
        return None
    rates, linear = [], []
    for errors, lengths in (a, b):
        rates.append(_resample_rates(errors, lengths, clusters, seed=0))
        linear.append((errors - lengths * (errors.sum() / lengths.sum())) / lengths.sum())
    differences = rates[1] - rates[0]
    differences = differences[np.isfinite(differences)]
    weights, spread = np.full(len(a[0]), 1 / len(a[0])), float(np.std(differences))
    deviations = num_deviations(CONFIDENCE, linear[1] - linear[0], weights, clusters, spread)
    return Resampled(differences, deviations)


def interval(resampled: Resampled) -> tuple[float, float]:
    """Returns the lower and upper limits of the 95 % interval."""
    tail = 100.0 * NormalDist().cdf(-resampled.num_deviations)
    low, high = np.percentile(resampled.rates, [tail, 100.0 - tail])
    return float(low), float(high)


def num_deviations(
    confidence: float, errors: np.ndarray, lengths: np.ndarray, clusters: Sequence[np.ndarray], spread: float
) -> float:
    """Returns half the width of an interval, in standard deviations of the resampled rates.

    Percentiles of resamples assume a known standard error, so the interval would be too narrow if there are
    few clusters. It is expanded as in Hesterberg ("What teachers should know about the bootstrap", American
    Statistician 69(4), 2015): the normal quantile is replaced with Student's t quantile, multiplied by the
    ratio of the unbiased standard error to the standard error of the resamples. The unbiased standard error
    and the degrees of freedom (clusters in the smallest clustering, minus 1) follow Cameron, Gelbach and
    Miller ("Robust inference with multiway clustering", J. of Business and Economic Statistics 29(2), 2011).

    Args:
        confidence: probability that the interval covers the true rate, for example 0.95.
        errors, lengths: the same as for `resample`.
        clusters: one or two clusterings, each as the cluster numbers of the utterances, counted from 0; each
            clustering has at least two clusters.
        spread: standard deviation of the resampled rates. If it is large enough despite few clusters, the
            result is the normal quantile.
    """
    residuals = errors - lengths * (errors.sum() / lengths.sum())
    variances, counts = zip(*(_variance(residuals, ids) for ids in clusters))
    total = max(variances)  # lower limit, because the sum below may be smaller by chance
    if len(clusters) == 2:  # subtracts the variance of single utterances, which both variances include
        utterances = np.unique(np.stack(clusters), axis=1, return_inverse=True)[1].ravel()
        total = max(total, sum(variances) - _variance(residuals, utterances)[0])
    probability = (1.0 + confidence) / 2.0
    expansion = float(np.sqrt(total) / lengths.sum()) / spread if spread else 0.0
    return max(NormalDist().inv_cdf(probability), t_quantile(probability, min(counts) - 1) * expansion)


def t_quantile(probability: float, degrees: float) -> float:
    """Returns a quantile of Student's t distribution (Abramowitz and Stegun, 26.7.5).

    The approximation is off by 0.1 % at 4 degrees of freedom, by 1 % at 2, and by 11 % at 1.
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
    """Returns the variance of the summed residuals, assuming independent clusters, and the cluster count."""
    count = int(ids.max()) + 1
    return count / (count - 1) * float(np.sum(np.bincount(ids, weights=residuals) ** 2)), count


def _resample_rates(errors, lengths, clusters, seed):
    counts, rng, rates = np.stack([errors, lengths], 1).astype(np.float64), np.random.default_rng(seed), []
    for _ in range(_NUM_RESAMPLES // _RESAMPLES_AT_ONCE):
        weights = np.ones((_RESAMPLES_AT_ONCE, errors.size))  # [resamples, utterances]
        for ids in clusters:
            weights *= _draw(int(ids.max()) + 1, rng)[:, ids]
        # einsum does not use BLAS, whose threads would spend more time waiting than computing.
        sums = np.einsum("ru,uk->kr", weights, counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates.append(sums[0] / sums[1])
    return np.concatenate(rates)


def _draw(count, rng):
    """Returns how often each cluster is sampled, int64 [num_resamples, count]."""
    sampled = rng.integers(count, size=(_RESAMPLES_AT_ONCE, count))
    sampled += count * np.arange(_RESAMPLES_AT_ONCE)[:, np.newaxis]
    return np.bincount(sampled.ravel(), minlength=sampled.size).reshape(sampled.shape)
