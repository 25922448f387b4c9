"""Bar charts: counts per bin and split, which the template of the page draws as stacked bars."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

_MAX_BINS = 60
_MAX_LABELS = 12

Counts = Mapping[str, Mapping[str, int]]  # split -> key -> count


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar: its name, its label below the axis (may be empty), and its counts by split."""

    name: str
    label: str
    counts: Mapping[str, int]

    @property
    def title(self) -> str:
        """The text under the pointer."""
        counts = [f"{count:,} {split}" for split, count in self.counts.items() if count]
        return f"{self.name}: {', '.join(counts) or 0}"


@dataclasses.dataclass(frozen=True)
class Chart:
    """A title and bars from left to right."""

    title: str
    bars: Sequence[Bar]

    @property
    def highest(self) -> int:
        """The count of the highest bar."""
        return max(sum(bar.counts.values()) for bar in self.bars)


def histogram(title: str, counts: Counts, per_unit: int, unit: str) -> Chart:
    """Makes a chart of counts by integer (as a string); adjacent integers share a bar if there are many.

    per_unit integers are one unit of the axis.
    """
    numbers = sorted({int(key) for split in counts.values() for key in split})
    step = _step(numbers[-1] - numbers[0] + 1, _MAX_BINS)
    bins = {place: dict.fromkeys(counts, 0) for place in range(numbers[0] // step, numbers[-1] // step + 1)}
    for split, found in counts.items():
        for key, count in found.items():
            bins[int(key) // step][split] += count
    label_step = _step(len(bins), _MAX_LABELS)
    bars = []
    for place, bin_counts in bins.items():
        low, high = (f"{edge * step / per_unit:g}" for edge in (place, place + 1))
        bars.append(Bar(f"{low} to {high} {unit}", "" if place % label_step else low, bin_counts))
    return Chart(title, bars)


def categories(title: str, counts: Counts, names: Iterable[str]) -> Chart:
    """Makes a chart with one bar per name, in the given order."""
    bars = [Bar(name, name, {split: found.get(name, 0) for split, found in counts.items()}) for name in names]
    return Chart(title, bars)


def _step(size: int, most: int) -> int:
    """Returns the smallest of 1, 2, 5, 10, 20, ... that divides size into at most `most` bins."""
    steps = (10**power * factor for power in itertools.count() for factor in (1, 2, 5))
    return next(step for step in steps if size <= most * step)
