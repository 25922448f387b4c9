"""Rows (or columns) that belong to tokens, moved from one vocabulary to another by what they are called."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from estimator_asr import model_directory


class Names(NamedTuple):
    """What the places of a variable's axis belong to."""

    axis: int
    names: tuple[Hashable, ...]  # tokens, BLANK, or pairs of token and character


class _Blank:
    """The blank class, which is no token and equals none."""

    def __repr__(self):
        return "the blank"


BLANK = _Blank()


class Count(NamedTuple):
    """How many places were taken over, have no counterpart in the source, and were left there."""

    copied: int
    new: int
    dropped: int


class Match(NamedTuple):
    """Places of the same name; of a name that the source has twice, the first.

    Attributes:
        new, old: int64 [copied], places in the new model and in the source.
        count: of the names.
    """

    new: np.ndarray
    old: np.ndarray
    count: Count


def list_names(model: model_directory.ModelDirectory) -> dict[str, Names]:
    """Returns the variables of the model whose rows or columns belong to tokens, and to which."""
    if model.characters is None:
        return class_names(model.tokens.tokens)
    mask = model.readings.mask(model.tokens, model.characters)
    pairs = tuple(
        (model.tokens.tokens[token], model.characters.tokens[character])
        for token, character in np.argwhere(mask)
    )
    return {
        "language/tokens": Names(0, model.tokens.tokens),
        "language/characters": Names(0, model.characters.tokens),
        "language/reading_bias": Names(0, pairs),
    }


def class_names(tokens: tuple[str, ...]) -> dict[str, Names]:
    """Returns the variables of an acoustic model whose rows or columns are classes; the blank is the last."""
    classes = (*tokens, BLANK)
    return {
        f"acoustic/{head}/{name}": Names(axis, classes)
        for head in ("ctc", "decoder")
        for name, axis in (("class_vectors", 0), ("bias", 1))
    }


def match(new_names: tuple[Hashable, ...], old_names: tuple[Hashable, ...]) -> Match:
    """Pairs the places that have the same name."""
    places = {name: place for place, name in reversed(list(enumerate(old_names)))}
    pairs = [(place, places[name]) for place, name in enumerate(new_names) if name in places]
    new, old = np.array(pairs, np.int64).reshape(-1, 2).T
    used = len(set(old.tolist()))
    return Match(new, old, Count(len(pairs), len(new_names) - len(pairs), len(old_names) - used))


def place(initial: np.ndarray, source: np.ndarray, matched: Match, axis: int) -> np.ndarray:
    """Returns `initial` with the matched places of `source`; both differ along `axis` alone."""
    result = np.moveaxis(initial.copy(), axis, 0)
    result[matched.new] = np.moveaxis(source, axis, 0)[matched.old]
    return np.moveaxis(result, 0, axis)
