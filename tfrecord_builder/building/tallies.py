"""Counts and lists of extremes that can be added up: any order and any division gives the same sums.

A tally is a dict of what was seen to how often; its keys are strings, as JSON has no others. A list of
extremes holds entries [value, ...], the largest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NUM_EXTREMES = 10


def count(tally: dict[str, int], key: object) -> None:
    """Counts one more of a key."""
    key = str(key)
    tally[key] = tally.get(key, 0) + 1


def count_all(tally: dict[str, int], keys: Iterable[str]) -> None:
    """Counts one more of each key, which may repeat."""
    for key in keys:
        tally[key] = tally.get(key, 0) + 1


def add(total: dict[str, int], tally: Mapping[str, int]) -> None:
    """Adds a tally to a total."""
    for key, number in tally.items():
        total[key] = total.get(key, 0) + number


def keep(extremes: list[list], entry: list) -> None:
    """Puts an entry among the NUM_EXTREMES largest, if it is one of them.

    Entries of one value are ordered by what follows it, so that equal ones do not depend on who came first.
    """
    if len(extremes) < NUM_EXTREMES or _rank(entry) < _rank(extremes[-1]):
        extremes.append(entry)
        extremes.sort(key=_rank)
        del extremes[NUM_EXTREMES:]


def _rank(entry: list) -> tuple:
    return (-entry[0], *entry[1:])
