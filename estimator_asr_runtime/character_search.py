"""Beam search over the language model's candidates for each character of a sentence, with an n-gram model.

Equivalent to estimator_asr/decoding/search/character_search.py. The hypotheses for an utterance, one per row,
are searched together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import ngrams

IMPOSSIBLE = np.float32(-1e9)  # log probability of a missing candidate
_LOWEST = np.float32(-1e4)  # lower log probabilities in the graph's output mark missing candidates


class Sentences(NamedTuple):
    """The best characters for each sentence."""

    characters: np.ndarray  # int32 [rows, length], -1 at padding
    scores: np.ndarray  # float32 [rows], log probability of the candidates plus the n-gram scores
    probs: np.ndarray  # float32 [rows, length], probability of each character given the rest; 1 at padding


class Lattice(NamedTuple):
    """The best candidates for each token, best first; log_probs below _LOWEST mark missing candidates."""

    characters: np.ndarray  # int32 [rows, length, count]
    log_probs: np.ndarray  # float32 [rows, length, count]


def take_first(lattice: Lattice, num_tokens: np.ndarray) -> Sentences:
    """Returns the best candidate for each token, or -1 if there is none; num_tokens is int32 [rows]."""
    exists = _is_real(lattice, num_tokens) & (lattice.log_probs[..., 0] > _LOWEST)
    log_probs = np.where(exists, lattice.log_probs[..., 0], np.float32(0))
    characters = np.where(exists, lattice.characters[..., 0], -1)
    return Sentences(characters, np.sum(log_probs, axis=1), np.exp(log_probs))


def search(lattice: Lattice, num_tokens: np.ndarray, scorer: ngrams.NgramScorer, width: int) -> Sentences:
    """Returns the best sentences that a beam of `width` hypotheses finds; num_tokens is int32 [rows]."""
    exists = lattice.log_probs > _LOWEST
    lattice = Lattice(
        np.where(exists, lattice.characters, 0), np.where(exists, lattice.log_probs, IMPOSSIBLE)
    )
    scores, paths = _run(width, lattice, num_tokens, scorer)
    path = paths[np.arange(len(paths)), np.argmax(scores, axis=1)]
    best, states = path[..., 0], path[..., 1]
    is_real = _is_real(lattice, num_tokens)
    chosen = np.take_along_axis(lattice.characters, best[..., None], axis=2)[..., 0]
    characters = np.where(is_real, chosen, -1)
    totals = _score_alternatives(lattice, characters, states, num_tokens, scorer)
    exponentials = np.exp(totals - np.max(totals, axis=2, keepdims=True))
    probs = exponentials / np.sum(exponentials, axis=2, keepdims=True)
    probs = np.take_along_axis(probs, best[..., None], axis=2)[..., 0]
    return Sentences(characters, np.max(scores, axis=1), np.where(is_real, probs, np.float32(1)))


def _is_real(lattice: Lattice, num_tokens: np.ndarray) -> np.ndarray:
    return np.arange(lattice.characters.shape[1]) < num_tokens[:, None]


def _run(width: int, lattice: Lattice, num_tokens: np.ndarray, scorer) -> tuple[np.ndarray, np.ndarray]:
    """Returns the beam's scores, float32 [rows, width], and paths, int [rows, width, length, 2].

    For each token, a path contains the index of the chosen candidate and the scorer's state before the token.
    """
    rows, length, count = lattice.characters.shape
    places = np.broadcast_to(np.arange(width), [rows, width])
    scores = np.where(places == 0, np.float32(0), IMPOSSIBLE)
    states, paths = np.full([rows, width], scorer.start()), np.zeros([rows, width, 0, 2], int)
    for i in range(length):
        added, after = scorer.extend(states, lattice.characters[:, i])
        totals = (scores[:, :, None] + lattice.log_probs[:, i, None] + added).reshape(rows, -1)
        chosen = np.argsort(-totals, axis=1, kind="stable")[:, :width]
        is_real = (i < num_tokens)[:, None]
        before = np.where(is_real, chosen // count, places)
        link = np.stack([chosen % count, np.take_along_axis(states, before, axis=1)], axis=-1)
        paths = np.take_along_axis(paths, before[..., None, None], axis=1)
        paths = np.concatenate([paths, link[:, :, None]], axis=2)
        scores = np.where(is_real, np.take_along_axis(totals, chosen, axis=1), scores)
        after = np.take_along_axis(after.reshape(rows, -1), chosen, axis=1)
        states = np.where(is_real, after, states)
    return scores + scorer.finish(states), paths


def _score_alternatives(lattice: Lattice, characters, states, num_tokens, scorer) -> np.ndarray:
    """Returns each candidate's score if no other character changes, float32 [rows, length, count]."""
    rows, length, count = lattice.characters.shape
    added, after = scorer.extend(states.reshape(-1, 1), lattice.characters.reshape(-1, count))
    scores, after = added[:, 0], after[:, 0]
    for offset in range(1, scorer.context_length + 1):  # later characters with the candidate in context
        following = np.pad(characters[:, offset:], [[0, 0], [0, min(offset, length)]])
        added, extended = scorer.extend(after, np.maximum(following.reshape(-1, 1), 0))
        place = (np.arange(length) + offset - num_tokens[:, None]).reshape(-1, 1)
        scores = scores + np.where(place < 0, added[..., 0], np.float32(0))
        scores = scores + np.where(place == 0, scorer.finish(after), np.float32(0))
        after = extended[..., 0]
    return lattice.log_probs + scores.reshape(rows, length, count)
