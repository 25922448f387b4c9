"""Hotwords: their form, the automaton that favours them in the search, and their characters in a transcript.

    神雕侠侣 shen2 diao1 xia2 lv3         one syllable for each character
    神雕侠侣 shen2 diao1 xia2 lv3 2.5     and a boost, a natural logarithm

Equals estimator_asr/hotwords/in_graph.py and boosting.py, but that the pinyin must be given.
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
_HEAD_START = np.float32(0.1)  # of the boost, times the matched fraction of an incomplete phrase
_HIGHEST_LOG_PROB = -1e-6  # so that log odds are at most 14
_HEARD = 6.0  # added to the boost against the log odds of other characters, see in_graph.py
_FORM = "WORD pin1 yin1, or with a boost WORD pin1 yin1 6, with a syllable for each character"


class Hotword(NamedTuple):
    """A word with a token for each character."""

    characters: str
    ids: tuple[int, ...]
    boost: np.float32


def parse(model: model_lib.Model, lines: Sequence[str]) -> list[Hotword]:
    """Parses hotwords; those with a syllable that the acoustic model lacks are left out.

    Raises errors.UserError if one has another form, or the model takes none.
    """
    settings = model.settings
    if lines and (settings.token_type not in _TOKEN_TYPES or settings.acoustic.decoding != "beam"):
        raise errors.UserError(
            f"{model.path}: takes no hotwords, expected a model of syllables that searches with a beam; "
            "export one with --decoding=beam, or leave the hotwords out"
        )
    ids = {token: index for index, token in enumerate(model.tokens)}
    spell = _without_tone if settings.token_type == "toneless" else str.lower
    found = []
    for line in lines:
        characters, syllables, boost = _split(line)
        spoken = (b.upper() if a.upper() == b.upper() else b for a, b in zip(characters, syllables))
        tokens = tuple(ids.get(spell(each), model_lib.UNKNOWN_ID) for each in spoken)
        if model_lib.UNKNOWN_ID not in tokens:
            found.append(Hotword(characters, tokens, np.float32(boost)))
    return found


def _split(line: str) -> tuple[str, list[str], float]:
    characters, *syllables = line.split() or [""]
    # The last syllable of a word that ends in a digit may be that digit.
    is_spelled = len(syllables) == len(characters) and syllables[-1:] == [characters[-1:]]
    has_boost = syllables and _NUMBER.fullmatch(syllables[-1]) and not is_spelled
    boost = float(syllables.pop()) if has_boost else DEFAULT_BOOST
    if not syllables or len(syllables) != len(characters):
        counts = f"{len(characters)} characters and {len(syllables)} syllables"
        raise errors.UserError(f"hotwords: {line!r} has {counts}, expected {_FORM}; fix it")
    if boost > _MOST_BOOST:
        raise errors.UserError(
            f"hotwords: boost of {line!r} is {boost:g}, expected at most {_MOST_BOOST}; fix it"
        )
    return characters, syllables, boost


def _without_tone(syllable: str) -> str:
    """Returns a syllable without its tone; capitals are letters."""
    is_letter = re.fullmatch("[A-Z]", syllable)
    return syllable if is_letter else re.sub("([^1-5])[1-5]$", r"\1", syllable.lower())


class HotwordScorer:
    """Adds the boosts of phrases (see ngrams.py) by the automaton of Aho and Corasick (1975).

    A state is the longest end of a prefix with which a phrase begins. An incomplete phrase has a potential,
    which keeps it in the beam, and which the end of the match takes back if it fails.
    """

    def __init__(self, hotwords: Sequence[Hotword]):
        prefixes = {each.ids[:length] for each in hotwords for length in range(len(each.ids) + 1)}
        self._states = {ids: state for state, ids in enumerate(sorted({(), *prefixes}, key=len))}
        # For each state the states after those tokens after which it is not that of the token alone.
        self._after = self._list_transitions()
        self._potentials, completed = self._sum_boosts(hotwords)
        self._gains = self._potentials + completed

    def start(self) -> int:
        """Returns the state of no phrase."""
        return 0

    def extend(self, states: np.ndarray, token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns differences of potentials, and boosts of complete phrases; states [width], ids [tokens]."""
        tokens = token_ids.tolist()
        first_states = [self._states.get((token,), 0) for token in tokens]
        rows = [self._after[state] for state in states.tolist()]
        after = np.array([list(map(row.get, tokens, first_states)) for row in rows])
        return self._gains[after] - self._potentials[states][:, None], after

    def finish(self, states: np.ndarray) -> np.ndarray:
        """Returns what takes back the potential."""
        return -self._potentials[states]

    def _back_off(self, ids: tuple[int, ...]) -> int:
        """Returns the state of the longest shorter end."""
        return next(self._states[ids[i:]] for i in range(1, len(ids) + 1) if ids[i:] in self._states)

    def _list_transitions(self) -> list[dict[int, int]]:
        after = [{} for _ in self._states]
        for ids, state in self._states.items():
            if len(ids) > 1:
                after[self._states[ids[:-1]]][ids[-1]] = state
        for ids, state in self._states.items():  # the shorter ones come first
            if ids:
                after[state] = {**after[self._back_off(ids)], **after[state]}
        return after

    def _sum_boosts(self, hotwords: Sequence[Hotword]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the potential of each state, and the boosts of the phrases that end there."""
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
    """Returns what is written with the characters of each hotword where its tokens stand.

    What is written stays where its log odds are more than 6 higher than the boost of the hotword. `ids` has
    the token of each string.
    """
    by_ids = {each.ids: each for each in reversed(hotwords)}  # of equal ones the first counts
    strings, probs, start = list(written.strings), written.probs.copy(), 0
    longest = max(map(len, by_ids), default=0)
    while start < len(ids):
        windows = (tuple(ids[start : start + length]) for length in range(longest, 0, -1))
        hotword = next((by_ids[each] for each in windows if each in by_ids), None)
        end = start + (len(hotword.ids) if hotword else 1)
        if hotword and _is_replaced(hotword, strings[start:end], probs[start:end]):
            strings[start:end] = hotword.characters
            probs[start:end] = 1.0  # given the tokens, there is no doubt
        start = end
    return written._replace(strings=tuple(strings), probs=probs)


def _is_replaced(hotword: Hotword, strings: Sequence[str], probs: np.ndarray) -> bool:
    pairs = zip(strings, hotword.characters, probs)
    others = [prob for string, character, prob in pairs if string.lower() != character.lower()]
    log_prob = min(sum(math.log(prob) if prob else -math.inf for prob in others), _HIGHEST_LOG_PROB)
    return not others or log_prob - math.log(-math.expm1(log_prob)) <= hotword.boost + _HEARD
