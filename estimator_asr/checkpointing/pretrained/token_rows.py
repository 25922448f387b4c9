"""Token rows: rows or columns of variables that belong to tokens, copied from one vocabulary to another."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from estimator_asr.experiment import model_directory

BLANK = None  # the name of the blank class, which is not a token


class Names(NamedTuple):
    """Names along an axis of a variable: tokens, BLANK, or (token, character) pairs."""

    axis: int
    names: tuple[Hashable, ...]


class Count(NamedTuple):
    """Numbers of rows: copied, only in the new model, only in the source."""

    copied: int
    new: int
    dropped: int


def list_names(model: model_directory.ModelDirectory) -> dict[str, Names]:
    """Returns the names of the rows that belong to tokens or characters, by variable of the model."""
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
    """Returns the names of the rows that belong to classes, BLANK last, by variable of an acoustic model."""
    classes = (*tokens, BLANK)
    return {
        f"acoustic/{head}/{name}": Names(axis, classes)
        for head in ("ctc", "decoder")
        for name, axis in (("class_vectors", 0), ("bias", 1))
    }


def copy(
    initial: np.ndarray, new: Names, source: np.ndarray, old: Names
) -> tuple[np.ndarray, np.ndarray, Count]:
    """Copies the rows whose names are in both; of rows with the same name in the source, the first.

    Args:
        initial: values of the new model.
        new: names of its rows.
        source: values of the source, which differ in shape only along the axis of the names.
        old: names of its rows.

    Returns:
        `initial` with these rows of `source`; int64 [copied], which rows they are; and their count.
    """
    rows = {name: row for row, name in reversed(list(enumerate(old.names)))}
    pairs = [(row, rows[name]) for row, name in enumerate(new.names) if name in rows]
    copied, taken = np.array(pairs, np.int64).reshape(-1, 2).T
    result = np.moveaxis(initial.copy(), new.axis, 0)
    result[copied] = np.moveaxis(source, new.axis, 0)[taken]
    count = Count(len(pairs), len(new.names) - len(pairs), len(old.names) - len(set(taken.tolist())))
    return np.moveaxis(result, 0, new.axis), copied, count
