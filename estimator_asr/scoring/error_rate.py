"""Error rates with confidence intervals that know which utterances belong together.

A rate is the sum of edits over the sum of reference lengths; insertions can push it over 1.

One sentence read by ten speakers is not ten samples, so the interval comes from the pigeonhole bootstrap
(Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 2007): every resample draws the levels
of each clustering (speakers, sentences) with replacement, and an utterance counts as often as its speaker was
drawn times as often as its sentence was drawn. The interval spans the middle 95 % of the resampled rates. It
errs on the wide side, by at most a factor of sqrt(3) (each sentence read once). It cannot know how much
speakers differ when there are one or two of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from estimator_asr.scoring import edit_distance

CONFIDENCE = 0.95
NUM_RESAMPLES = 1000
_RESAMPLES_AT_ONCE = 50  # keeps the weights of 100,000 utterances under 50 MB
_RULE_OF_THREE = 3.0  # no event in n trials: at 95 % the chance of one is below 3 / n


@dataclasses.dataclass(frozen=True)
class ErrorRate:
    """Edits over a set of utterances.

    rate: errors / reference_length; None where the references hold no token at all.
    confidence_interval: lower and upper end of the rate at 95 %; None where there is a single cluster,
      so nothing to resample.
    """

    rate: float | None
    errors: int
    substitutions: int
    insertions: int
    deletions: int
    reference_length: int
    confidence_interval: tuple[float, float] | None


def measure(
    edits: Sequence[edit_distance.Edits], clusterings: Sequence[Sequence[Hashable]], seed: int = 0
) -> ErrorRate:
    """Sum edits up and put an interval around their rate.

    Args:
      edits: one an utterance.
      clusterings: e.g. (speakers, sentences), each with one label an utterance.
      seed: of the resampling; the same input and seed give the same interval.
    """
    counts = np.array([(*edit, edit.errors) for edit in edits], np.int64).reshape(-1, 5)
    substitutions, insertions, deletions, reference_length, errors = (
        int(total) for total in counts.sum(axis=0)
    )
    rate = errors / reference_length if reference_length else None
    interval = _interval(counts[:, 4], counts[:, 3], clusterings, seed) if reference_length else None
    return ErrorRate(rate, errors, substitutions, insertions, deletions, reference_length, interval)


def _interval(
    errors: np.ndarray, lengths: np.ndarray, clusterings: Sequence[Sequence[Hashable]], seed: int
) -> tuple[float, float] | None:
    levels = [np.unique(np.asarray(labels), return_inverse=True)[1] for labels in clusterings]
    levels = [level for level in levels if level.max() > 0]  # a lone speaker is always drawn
    if not levels:
        return None
    if not errors.any():
        return 0.0, _upper_limit_without_errors(lengths, levels[-1])
    rates = np.concatenate(list(_resampled_rates(errors, lengths, levels, np.random.default_rng(seed))))
    tail = 100.0 * (1.0 - CONFIDENCE) / 2.0
    low, high = np.percentile(rates[np.isfinite(rates)], [tail, 100.0 - tail])
    return float(low), float(high)


def _resampled_rates(
    errors: np.ndarray, lengths: np.ndarray, levels: Sequence[np.ndarray], rng: np.random.Generator
) -> Iterator[np.ndarray]:
    for _ in range(NUM_RESAMPLES // _RESAMPLES_AT_ONCE):
        weights = np.ones((_RESAMPLES_AT_ONCE, errors.size))  # [resamples, utterances]
        for level in levels:
            num_clusters = int(level.max()) + 1
            draws = rng.multinomial(
                num_clusters, np.full(num_clusters, 1.0 / num_clusters), _RESAMPLES_AT_ONCE
            )
            weights *= draws[:, level]
        with np.errstate(divide="ignore", invalid="ignore"):
            yield (weights @ errors) / (weights @ lengths)


def _upper_limit_without_errors(lengths: np.ndarray, level: np.ndarray) -> float:
    """Rule of three, each sentence taken once however often read; resampled zeros would claim certainty."""
    readings_a_sentence = level.size / (level.max() + 1)
    return float(_RULE_OF_THREE * readings_a_sentence / lengths.sum())
