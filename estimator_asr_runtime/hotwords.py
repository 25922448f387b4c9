"""Parses hotwords, favours them in the search, and writes them into transcripts. Examples of hotwords:

    神雕侠侣 shen2 diao1 xia2 lv3         one syllable for each character
    神雕侠侣 shen2 diao1 xia2 lv3 2.5     with a boost (a natural logarithm)

Equivalent to estimator_asr/decoding/hotwords/in_graph.py and boosting.py, except that the pinyin is required.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import errors, writing
from estimator_asr_runtime import model as model_lib

DEFAULT_BOOST = 4.0
_MOST_BOOST = 1_000_000
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+")
_TOKEN_TYPES = ("syllable", "toneless")
_HEAD_START = np.float32(0.1)  # an incomplete phrase gets 0.1 x its boost x the fraction that has matched
_HIGHEST_LOG_PROB = -1e-6  # limits log odds to about 14
_HEARD = 6.0  # characters stay if their log odds exceed a boost by more than this; see in_graph.py
_FORM = "WORD pin1 yin1 or, to set a boost, WORD pin1 yin1 6, with one syllable per character"


class Hotword(NamedTuple):
    """A word, with one token id per character."""

    characters: str
    ids: tuple[int, ...]
    boost: np.float32


def parse(model: model_lib.Model, lines: Sequence[str]) -> list[Hotword]:
    """Parses hotwords; skips hotwords that contain a syllable missing from the acoustic model.

    Raises errors.UserError if a line is malformed, or the model does not support hotwords.
    """
    settings = model.settings
    if lines and (settings.token_type not in _TOKEN_TYPES or settings.acoustic.decoding != "beam"):
        raise errors.UserError(
            f"{model.path} does not support hotwords, because it is not a syllable model with beam search; "
            "export a syllable model with --decoding=beam, or omit the hotwords"
        )
    ids = {token: index for index, token in enumerate(model.tokens)}
    spell = _without_tone if settings.token_type == "toneless" else str.lower
    hotwords = []
    for line in lines:
        characters, syllables, boost = _split(line)
        syllables = (b.upper() if a.upper() == b.upper() else b for a, b in zip(characters, syllables))
        tokens = tuple(ids.get(spell(syllable), model_lib.UNKNOWN_ID) for syllable in syllables)
        if model_lib.UNKNOWN_ID not in tokens:
            hotwords.append(Hotword(characters, tokens, np.float32(boost)))
    return hotwords


def _split(line: str) -> tuple[str, list[str], float]:
    characters, *syllables = line.split() or [""]
    # If a word ends in a digit, that digit may be its last syllable rather than a boost.
    is_spelled = len(syllables) == len(characters) and syllables[-1:] == [characters[-1:]]
    has_boost = syllables and _NUMBER.fullmatch(syllables[-1]) and not is_spelled
    boost = float(syllables.pop()) if has_boost else DEFAULT_BOOST
    if not syllables or len(syllables) != len(characters):
        counts = f"{len(characters)} characters and {len(syllables)} syllables"
        raise errors.UserError(f"hotword {line!r} has {counts}; write it as {_FORM}")
    if boost > _MOST_BOOST:
        raise errors.UserError(
            f"the boost of hotword {line!r} is {boost:g}, expected at most {_MOST_BOOST}; lower it"
        )
    return characters, syllables, boost


def _without_tone(syllable: str) -> str:
    """Returns a syllable without its tone; a single capital letter is left unchanged."""
    is_letter = re.fullmatch("[A-Z]", syllable)
    return syllable if is_letter else re.sub("([^1-5])[1-5]$", r"\1", syllable.lower())


class HotwordScorer:
    """A scorer (see ngrams.py) that boosts phrases by means of an Aho-Corasick automaton (1975).

    A state is the longest suffix of the tokens so far that is a prefix of a phrase. An incomplete phrase has
    a potential, a bonus that keeps it in the beam and is cancelled when the match ends or fails.
    """

    def __init__(self, hotwords: Sequence[Hotword]):
        prefixes = {word.ids[:length] for word in hotwords for length in range(len(word.ids) + 1)}
        self._states = {ids: state for state, ids in enumerate(sorted({(), *prefixes}, key=len))}
        # Per state: {token id: next state}. Missing tokens lead to the state of the token alone, or to 0.
        self._after = self._list_transitions()
        self._potentials, completed = self._sum_boosts(hotwords)
        self._gains = self._potentials + completed

    def start(self) -> int:
        """Returns the state in which no phrase has begun."""
        return 0

    def extend(self, states: np.ndarray, token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns scores and next states, [width, tokens], for `states` [width] and `token_ids` [tokens].

        A score is the change in the potential plus the boosts of completed phrases.
        """
        tokens = token_ids.tolist()
        first_states = [self._states.get((token,), 0) for token in tokens]
        rows = [self._after[state] for state in states.tolist()]
        after = np.array([list(map(row.get, tokens, first_states)) for row in rows])
        return self._gains[after] - self._potentials[states][:, None], after

    def finish(self, states: np.ndarray) -> np.ndarray:
        """Returns the scores that cancel the states' potentials, since their matches are incomplete."""
        return -self._potentials[states]

    def _back_off(self, ids: tuple[int, ...]) -> int:
        """Returns the state of the longest proper suffix of `ids` that has a state."""
        return next(self._states[ids[i:]] for i in range(1, len(ids) + 1) if ids[i:] in self._states)

    def _list_transitions(self) -> list[dict[int, int]]:
        after = [{} for _ in self._states]
        for ids, state in self._states.items():
            if len(ids) > 1:
                after[self._states[ids[:-1]]][ids[-1]] = state
        for ids, state in self._states.items():  # states back off to shorter suffixes, which come first
            if ids:
                after[state] = {**after[self._back_off(ids)], **after[state]}
        return after

    def _sum_boosts(self, hotwords: Sequence[Hotword]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the potential of each state, and the total boost of the phrases that end in that state."""
        potentials, completed = np.zeros([2, len(self._states)], np.float32)
        for _, ids, boost in hotwords:
            for length in range(1, len(ids)):
                state, part = self._states[ids[:length]], np.float32(length) / np.float32(len(ids))
                potentials[state] = max(potentials[state], _HEAD_START * boost * part)
            completed[self._states[ids]] = max(completed[self._states[ids]], boost)
        for ids, state in self._states.items():
            if ids:
                shorter = self._back_off(ids)
                potentials[state] = max(potentials[state], potentials[shorter])
                completed[state] += completed[shorter]
        return potentials, completed


def write(hotwords: Sequence[Hotword], written: writing.Written, ids: Sequence[int]) -> writing.Written:
    """Replaces the strings for each hotword's tokens with the hotword's characters; `ids` are the tokens.

    Strings are kept if their log odds exceed the hotword's boost by more than 6.
    """
    by_ids = {word.ids: word for word in reversed(hotwords)}  # the first one counts if ids are equal
    strings, probs, start = list(written.strings), written.probs.copy(), 0
    longest = max(map(len, by_ids), default=0)
    while start < len(ids):
        windows = (tuple(ids[start : start + length]) for length in range(longest, 0, -1))
        hotword = next((by_ids[window] for window in windows if window in by_ids), None)
        end = start + (len(hotword.ids) if hotword else 1)
        if hotword and _is_replaced(hotword, strings[start:end], probs[start:end]):
            strings[start:end] = hotword.characters
            probs[start:end] = 1.0  # the tokens leave no doubt about the characters
        start = end
    return written._replace(strings=tuple(strings), probs=probs)


def _is_replaced(hotword: Hotword, strings: Sequence[str], probs: np.ndarray) -> bool:
    pairs = zip(strings, hotword.characters, probs)
    others = [prob for string, character, prob in pairs if string.lower() != character.lower()]
    log_prob = min(sum(math.log(prob) if prob else -math.inf for prob in others), _HIGHEST_LOG_PROB)
    return not others or log_prob - math.log(-math.expm1(log_prob)) <= hotword.boost + _HEARD
