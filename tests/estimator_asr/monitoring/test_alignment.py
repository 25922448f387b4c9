from __future__ import annotations

import itertools

import numpy as np
import pytest

from estimator_asr.monitoring import alignment

BLANK = 2


def merge(path):
    """The labels that a path of classes says: repeats merged, blanks dropped."""
    return [int(c) for c, _ in itertools.groupby(path) if c != BLANK]


def best_by_force(log_probs, labels):
    """Score of the best of all paths that say the labels; -inf if none does."""
    paths = itertools.product(range(log_probs.shape[1]), repeat=len(log_probs))
    return max(
        (sum(log_probs[frame, c] for frame, c in enumerate(path)) for path in paths if merge(path) == labels),
        default=-np.inf,
    )


def score(log_probs, labels, spans):
    """Score of the best path that has each label in exactly its span."""
    path = np.full(len(log_probs), BLANK)
    for label, span in zip(labels, spans):
        path[span.first : span.last + 1] = label
    assert merge(path) == labels
    return sum(log_probs[frame, c] for frame, c in enumerate(path))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("labels", [[], [0], [0, 1], [0, 0], [1, 0, 1], [1, 1, 1]])
def test_the_alignment_is_the_best_of_all_paths(seed, labels):
    logits = np.random.default_rng(seed).normal(size=[6, 3])
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    spans = alignment.align(log_probs, labels, BLANK)
    assert len(spans) == len(labels)
    assert score(log_probs, labels, spans) == pytest.approx(best_by_force(log_probs, labels))


@pytest.mark.parametrize(
    "labels, num_frames, fits",
    [
        ([0, 1], 2, True),
        ([0, 1], 1, False),
        ([0, 0], 2, False),
        ([0, 0], 3, True),
        ([], 0, True),
        ([0], 0, False),
    ],
)
def test_labels_that_do_not_fit_have_no_alignment(labels, num_frames, fits):
    log_probs = np.full([num_frames, 3], np.log(1 / 3))
    assert (alignment.align(log_probs, labels, BLANK) is not None) == fits


def test_spans_are_where_the_probabilities_are():
    heard = [2, 0, 0, 2, 2, 1, 2]
    log_probs = np.log(np.where(np.arange(3) == np.array(heard)[:, None], 0.9, 0.05))
    assert alignment.align(log_probs, [0, 1], BLANK) == [alignment.Span(1, 2), alignment.Span(5, 5)]
