"""CTC prefix beam search of one utterance, and the best path.

Equals estimator_asr/models/decoding/prefix_beam_search.py (Graves 2012, section 7.5.3; Hannun et al. 2014,
algorithm 1). Probabilities are scaled in every frame; prefixes are compared by 64-bit hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import frames as frames_lib
from estimator_asr_runtime import model_json

_HASH_FACTOR = 6364136223846793005  # of a 64-bit linear congruential generator (Knuth's MMIX)
_EMPTY_HASH = 1  # of the empty prefix
_NO_HASH = -1  # of its parent
_NO_NODE = -1


class Hypothesis(NamedTuple):
    """A token sequence, its score, and its log probability by the acoustic model alone (both float32)."""

    ids: tuple[int, ...]
    score: np.float32
    acoustic_score: np.float32


class _Beam(NamedTuple):
    """The best prefixes, best first; int64 [width] but for those with a comment."""

    blank_probs: np.ndarray  # float32, scaled: of the paths that end with a blank
    token_probs: np.ndarray  # float32, scaled: of the paths that end with the last token
    hashes: np.ndarray
    parents: np.ndarray  # hashes without the last token
    last_ids: np.ndarray
    nodes: np.ndarray  # frame x width + place where the last token was added
    bonuses: np.ndarray  # float32, sum of what the scorers added
    states: tuple[np.ndarray, ...]  # int32, for each scorer


def search(decode: model_json.Decode, log_probs: np.ndarray, scorers: Sequence = ()) -> list[Hypothesis]:
    """Returns the most probable token sequences, at most beam_width and best first.

    log_probs are float32 [num_frames, num_classes], the blank is the last class; for scorers see scorers.py.
    """
    with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf
        frames = frames_lib.select(log_probs, decode.skipped_blank, decode.candidates)
        beam, scale, links = _first_beam(decode.beam_width, log_probs.shape[1] - 1, scorers), 0.0, []
        for i in range(len(frames.probs)):
            beam, norm, link = _step(frames, i, beam, scorers)
            links.append(link)
            scale += float(np.log(norm))  # float64: over a minute float32 would lose digits
        return _rank(beam, scale + float(frames.skipped_score), scorers, links)


def best_path(log_probs: np.ndarray) -> list[int]:
    """Returns the best class of every frame, repeats merged, blanks dropped (Graves et al., 2006)."""
    best = np.argmax(log_probs, axis=1)
    is_new = np.diff(best, prepend=-1) != 0
    return best[is_new & (best < log_probs.shape[1] - 1)].tolist()


def greedy(log_probs: np.ndarray) -> list[Hypothesis]:
    """Returns the best path alone, with the log probability of that path."""
    score = np.sum(np.max(log_probs, axis=1), dtype=np.float32)
    return [Hypothesis(tuple(best_path(log_probs)), score, score)]


def _first_beam(width: int, blank_id: int, scorers) -> _Beam:
    """Returns a beam of the empty prefix, and width - 1 that are impossible."""
    is_empty, zeros = np.arange(width) == 0, np.zeros(width, np.float32)
    return _Beam(
        is_empty.astype(np.float32),
        zeros,
        np.where(is_empty, _EMPTY_HASH, _impossible_hashes(width)),
        np.full(width, _NO_HASH),
        np.where(is_empty, blank_id, 0),
        np.full(width, _NO_NODE),
        zeros,
        tuple(np.full(width, scorer.start(), np.int32) for scorer in scorers),
    )


def _impossible_hashes(width: int) -> np.ndarray:
    """Returns the hashes of prefixes of probability 0: each equals no other."""
    return _NO_HASH - 1 - np.arange(width)


def _step(frames: frames_lib.Frames, i: int, beam: _Beam, scorers):
    """Extends a beam by frame i; returns the beam, what it was divided by, and (nodes before, tokens)."""
    token_ids, step = frames.token_ids[i], 1 + frames.token_ids.shape[1]
    stay, ended, extended = _extend(frames, i, beam)
    scores = np.log(_join(stay + ended, extended))
    bonuses, states = _score(scorers, beam, token_ids)
    if scorers:
        scores = scores + bonuses
    places = np.argsort(-scores, kind="stable")[: len(stay)]
    before, ranks = places // step, places % step
    is_new, tokens = ranks > 0, token_ids[np.maximum(ranks - 1, 0)]
    blank_probs, token_probs = ended[before] * ~is_new, _join(stay, extended)[places]
    norm = np.max(blank_probs + token_probs)
    keys = _follow(beam, before, tokens, is_new, np.isinf(scores[places]), i)
    chosen = bonuses[places] if scorers else beam.bonuses
    states = tuple(each[places] for each in states)
    grown = _Beam(blank_probs / norm, token_probs / norm, *keys, chosen, states)
    return grown, norm, (beam.nodes[before], tokens)


def _extend(frames: frames_lib.Frames, i: int, beam: _Beam):
    """Adds a frame to each prefix.

    Returns probabilities float32 [width] of prefixes that stay by their last token, and by a blank; and
    [width, tokens] of those with another token.
    """
    token_probs = beam.token_probs if frames.follow_token[i] else np.zeros_like(beam.token_probs)
    blank_probs = beam.blank_probs + (beam.token_probs - token_probs)
    # A token that equals the last one is new after a blank alone.
    is_last = beam.last_ids[:, None] == frames.token_ids[i]
    extended = (blank_probs[:, None] + token_probs[:, None] * ~is_last) * frames.token_probs[i]
    is_parent = beam.hashes[:, None] == beam.parents  # of the second
    extended *= ~(is_parent @ is_last)  # which is in the beam already
    differ = beam.last_ids[:, None] != beam.last_ids
    from_parent = (blank_probs[:, None] + token_probs[:, None] * differ) * is_parent
    stay = (token_probs + np.sum(from_parent, axis=0)) * frames.probs[i, beam.last_ids]
    return stay, (blank_probs + token_probs) * frames.probs[i, -1], extended


def _score(scorers, beam: _Beam, token_ids: np.ndarray):
    """Returns bonuses and states of the candidates, [width x (1 + tokens)]."""
    extended = [scorer.extend(states, token_ids) for scorer, states in zip(scorers, beam.states)]
    added = sum(scores for scores, _ in extended)
    states = tuple(_join(old, new) for old, (_, new) in zip(beam.states, extended))
    return _join(beam.bonuses, beam.bonuses[:, None] + added) if scorers else beam.bonuses, states


def _follow(beam: _Beam, before, tokens, is_new, is_impossible, i: int):
    """Returns hashes, parents, last_ids and nodes of a beam from those of the prefixes before."""
    width, hashes, parents = len(before), beam.hashes[before], beam.parents[before]
    parents = np.where(is_new, hashes, parents)
    hashes = np.where(is_new, hashes * _HASH_FACTOR + tokens + 1, hashes)
    return (
        np.where(is_impossible, _impossible_hashes(width), hashes),
        np.where(is_impossible, _NO_HASH, parents),
        np.where(is_new, tokens, beam.last_ids[before]),
        np.where(is_new, i * width + np.arange(width), beam.nodes[before]),
    )


def _join(alone: np.ndarray, extended: np.ndarray) -> np.ndarray:
    """Returns [width x (1 + tokens)] of [width] and [width, tokens]."""
    return np.concatenate([alone[:, None], extended], axis=1).reshape(-1)


def _rank(beam: _Beam, scale: float, scorers, links) -> list[Hypothesis]:
    """Returns the possible prefixes of a beam, with what scorers add at the end."""
    acoustic = np.log(beam.blank_probs + beam.token_probs) + np.float32(scale)
    ends = [scorer.finish(states) for scorer, states in zip(scorers, beam.states)]
    scores = acoustic + (beam.bonuses + sum(ends, np.zeros_like(acoustic)))
    order = [i for i in np.argsort(-scores, kind="stable") if scores[i] > -np.inf]
    return [Hypothesis(_trace(int(beam.nodes[i]), links), scores[i], acoustic[i]) for i in order]


def _trace(node: int, links) -> tuple[int, ...]:
    """Follows the nodes back; returns the tokens, first to last."""
    ids = []
    while node >= 0:
        frame, place = divmod(node, len(links[0][0]))
        nodes, tokens = links[frame]
        ids.append(int(tokens[place]))
        node = int(nodes[place])
    return tuple(reversed(ids))
