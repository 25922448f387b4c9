"""Hotwords in plain Python: the boost of a sequence of tokens, and the places of the phrases in it."""

import numpy as np


def total_boost(phrases, boosts, tokens) -> float:
    """Returns the total boost of all occurrences; for duplicate phrases, only the highest boost counts."""
    highest = {}
    for phrase, boost in zip(map(tuple, phrases), boosts):
        highest[phrase] = max(boost, highest.get(phrase, 0.0))
    return sum(boost * count(phrase, tokens) for phrase, boost in highest.items() if phrase)


def count(phrase, tokens) -> int:
    ends = range(len(phrase), len(tokens) + 1)
    return sum(tuple(tokens[end - len(phrase) : end]) == phrase for end in ends)


def match(phrases, tokens) -> list[tuple[int, int]]:
    """Returns phrase and offset for each token, (-1, 0) for none: from left to right, longest first."""
    found, start = [], 0
    while start < len(tokens):
        fitting = [
            (-len(phrase), index)
            for index, phrase in enumerate(phrases)
            if len(phrase) and tuple(tokens[start : start + len(phrase)]) == tuple(phrase)
        ]
        length, index = min(fitting, default=(-1, -1))
        found += [(index, offset) for offset in range(-length)]
        start -= length
    return found


def pad(rows, fill: int = -1) -> np.ndarray:
    """Returns int32 [rows, longest]."""
    longest = max(map(len, rows), default=0)
    padded = [[*row, *[fill] * (longest - len(row))] for row in rows]
    return np.array(padded, np.int32).reshape(len(rows), longest)


def random_phrases(rng, most: int, num_tokens: int) -> list[list[int]]:
    """Returns phrases with so few different tokens that they overlap, and some are duplicates or empty."""
    lengths = rng.integers(0, 6, rng.integers(0, most + 1))
    return [rng.integers(1, num_tokens, length).tolist() for length in lengths]
