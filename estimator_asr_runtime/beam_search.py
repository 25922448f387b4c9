"""CTC prefix beam search and greedy (best path) decoding of one utterance.

Equivalent to estimator_asr/decoding/search/prefix_beam_search.py (Graves 2012, section 7.5.3; Hannun et al.
2014, algorithm 1). Probabilities are rescaled in every frame; prefixes are compared by 64-bit hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import model_json

_HASH_FACTOR = 6364136223846793005  # multiplier of Knuth's 64-bit linear congruential generator MMIX
_EMPTY_HASH, _NO_HASH = 1, -1  # hash of the empty prefix, and a placeholder for the hash of its parent


class Hypothesis(NamedTuple):
    """A token sequence, its score, and its log probability under the acoustic model alone."""

    ids: tuple[int, ...]
    score: np.float32
    acoustic_score: np.float32


class _Frames(NamedTuple):
    """The frames to search, in order."""

    probs: np.ndarray  # float32 [num_searched, num_classes]
    token_probs: np.ndarray  # float32 [num_searched, num_candidates], highest probabilities, best first
    token_ids: np.ndarray  # int64 [num_searched, num_candidates], tokens with these probabilities
    follow_token: np.ndarray  # bool [num_searched], False if the previous frame was skipped
    skipped_score: np.float32  # log probability of blanks in all skipped frames


class _Beam(NamedTuple):
    """The best prefixes with a nonzero probability, best first; arrays are int64 [width] unless noted."""

    blank_probs: np.ndarray  # float32, scaled probabilities of the paths that end with a blank
    token_probs: np.ndarray  # float32, scaled probabilities of the paths that end with the last token
    hashes: np.ndarray
    parents: np.ndarray  # hashes of the prefixes without their last token
    last_ids: np.ndarray
    bonuses: np.ndarray  # float32, sums of token_bonus and the scorers' scores
    states: tuple[np.ndarray, ...]  # one array of states per scorer
    nodes: list[tuple]  # (node of the parent prefix, last token); () for the empty prefix


def search(decode: model_json.Decode, log_probs: np.ndarray, scorers: Sequence = ()) -> list[Hypothesis]:
    """Returns the most probable token sequences, best first: up to beam_width, or one with greedy decoding.

    log_probs is float32 [num_frames, num_classes]; the blank is the last class. For scorers, see ngrams.py.
    """
    if decode.decoding == "greedy":
        score = np.sum(np.max(log_probs, axis=1), dtype=np.float32)
        return [Hypothesis(tuple(best_path(log_probs)), score, score)]
    with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf
        frames = _select(decode, log_probs)
        beam, scale = _make_first(log_probs.shape[1] - 1, scorers), 0.0
        for i in range(len(frames.probs)):
            beam, norm = _step(decode, frames, i, beam, scorers)
            scale += float(np.log(norm))  # float32 would lose precision over a minute of audio
    acoustic = np.log(beam.blank_probs + beam.token_probs) + np.float32(scale + float(frames.skipped_score))
    ends = [scorer.finish(states) for scorer, states in zip(scorers, beam.states)]
    scores = acoustic + sum(ends, beam.bonuses)
    order = np.argsort(-scores, kind="stable")
    return [Hypothesis(_trace(beam.nodes[i]), scores[i], acoustic[i]) for i in order]


def best_path(log_probs: np.ndarray) -> list[int]:
    """Returns the best class for each frame, with repeats merged and blanks removed (Graves et al., 2006)."""
    best = np.argmax(log_probs, axis=1)
    is_new = np.diff(best, prepend=-1) != 0
    return best[is_new & (best < log_probs.shape[1] - 1)].tolist()


def _select(decode: model_json.Decode, log_probs: np.ndarray) -> _Frames:
    """Returns all frames except those whose blank probability exceeds skipped_blank (1 skips no frames)."""
    probs = np.exp(log_probs)
    is_skipped = probs[:, -1] > np.float32(decode.skipped_blank)
    positions = np.flatnonzero(~is_skipped)
    searched = probs[positions]
    tokens = searched[:, :-1]
    token_ids = _find_best(tokens, min(decode.candidates, tokens.shape[1]))
    token_probs = np.take_along_axis(tokens, token_ids, axis=1)
    follow_token = np.diff(positions, prepend=-1) == 1
    skipped_score = np.sum(np.log(probs[is_skipped, -1]), dtype=np.float32)
    return _Frames(searched, token_probs, token_ids, follow_token, skipped_score)


def _find_best(values: np.ndarray, count: int) -> np.ndarray:
    """Returns the column indices of the `count` highest values in each row, best first, int64 [rows, count].

    `values` is [rows, size]; equal values keep their order. Each row is cut into about 4 x count blocks. At
    least `count` values reach the count-th highest of the blocks' maxima, so lower values are not sorted.
    """
    starts = np.arange(0, values.shape[1], max(values.shape[1] // (4 * count), 1))
    highest = np.maximum.reduceat(values, starts, axis=1)
    bounds = np.partition(highest, -count, axis=1)[:, -count, None]
    rows, places = np.nonzero(values >= bounds)  # each row has at least `count` such values
    order = np.lexsort((places, -values[rows, places], rows))
    return places[order][np.searchsorted(rows, np.arange(len(values)))[:, None] + np.arange(count)]


def _make_first(blank_id: int, scorers) -> _Beam:
    """Returns a beam that contains only the empty prefix."""
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    keys = (np.array([key]) for key in (_EMPTY_HASH, _NO_HASH, blank_id))
    return _Beam(one, zero, *keys, zero, tuple(np.array([scorer.start()]) for scorer in scorers), [()])


def _step(decode: model_json.Decode, frames: _Frames, i: int, beam: _Beam, scorers):
    """Extends a beam by frame i; returns the new beam and the norm by which probabilities were divided."""
    token_ids, count = frames.token_ids[i], frames.token_ids.shape[1]
    stay, ended, extended = _extend(frames, i, beam)
    bonuses, states = _score(decode, scorers, beam, token_ids)
    scores = np.log(_join(stay + ended, extended, count)) + bonuses
    places = np.argsort(-scores, kind="stable")[: decode.beam_width]
    places = places[scores[places] > -np.inf]
    before, ranks = np.divmod(places, 1 + count)
    is_new, tokens = ranks > 0, token_ids[ranks - 1]  # a token is valid only where is_new is True
    blank_probs, token_probs = ended[before] * ~is_new, _join(stay, extended, count)[places]
    norm = np.max(blank_probs + token_probs)
    hashes, moves = beam.hashes[before], zip(before.tolist(), tokens.tolist(), is_new.tolist())
    grown = _Beam(
        blank_probs / norm,
        token_probs / norm,
        np.where(is_new, hashes * _HASH_FACTOR + tokens + 1, hashes),
        np.where(is_new, hashes, beam.parents[before]),
        np.where(is_new, tokens, beam.last_ids[before]),
        bonuses[places],
        tuple(scorer_states[places] for scorer_states in states),
        [(beam.nodes[place], token) if new else beam.nodes[place] for place, token, new in moves],
    )
    return grown, norm


def _extend(frames: _Frames, i: int, beam: _Beam):
    """Computes the probabilities of each prefix and of its extensions after frame i.

    Returns three float32 arrays: the probability of each unchanged prefix over all paths that end with its
    last token, [width], and over all paths that end with a blank, [width]; and the probability of each prefix
    extended by each token, [width, tokens].
    """
    probs = beam.blank_probs + beam.token_probs
    # Skipped frames count as a blank before the next token.
    same_token, blank_probs = (beam.token_probs, beam.blank_probs) if frames.follow_token[i] else (0, probs)
    # A token that equals the last one extends the prefix only after a blank.
    last_ids, after_blank, after_all = beam.last_ids[:, None], blank_probs[:, None], probs[:, None]
    is_last = last_ids == frames.token_ids[i]
    extended = np.where(is_last, after_blank, after_all) * frames.token_probs[i]
    is_parent = beam.hashes[:, None] == beam.parents  # [i, j]: True if prefix i is the parent of prefix j
    extended *= ~(is_parent @ is_last)  # drops extensions that are already in the beam
    from_parent = np.where(last_ids == beam.last_ids, after_blank, after_all) * is_parent
    stay = (same_token + np.sum(from_parent, axis=0)) * frames.probs[i, beam.last_ids]
    return stay, probs * frames.probs[i, -1], extended


def _score(decode: model_json.Decode, scorers, beam: _Beam, token_ids: np.ndarray):
    """Returns the bonuses and the scorers' states for all candidates, [width x (1 + tokens)]."""
    extended = [scorer.extend(old, token_ids) for scorer, old in zip(scorers, beam.states)]
    count = len(token_ids)
    added = sum((scores for scores, _ in extended), np.float32(decode.token_bonus))
    states = [_join(old, new, count) for old, (_, new) in zip(beam.states, extended)]
    return _join(beam.bonuses, beam.bonuses[:, None] + added, count), states


def _join(alone: np.ndarray, extended: np.ndarray, num_tokens: int) -> np.ndarray:
    """Joins `alone` [width] and `extended` [width, num_tokens or 1] into [width x (1 + num_tokens)]."""
    joined = np.empty([len(alone), 1 + num_tokens], alone.dtype)
    joined[:, 0], joined[:, 1:] = alone, extended
    return joined.reshape(-1)


def _trace(node: tuple) -> tuple[int, ...]:
    """Returns the tokens of a prefix, in order."""
    ids = []
    while node:
        node, token = node
        ids.append(token)
    return tuple(reversed(ids))
