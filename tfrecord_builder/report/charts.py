"""Bar charts as figures that a template writes down as SVG: one bar a bin, one colour a split."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

WIDTH, HEIGHT = 900, 170  # of the bars alone, in SVG units
_MAX_BINS = 60
_MAX_TICKS = 12
_STEPS = (1, 2, 5)

Counts = Mapping[str, Mapping[str, int]]  # split -> key -> count


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar: where it stands, what it says, and its parts from below, (y, height, number of the split)."""

    x: float
    width: float
    title: str
    parts: tuple[tuple[float, float, int], ...]


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart; ticks are (x, label), highest is the count of the highest bar."""

    title: str
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    highest: int


def histogram(title: str, counts: Counts, per_unit: int, unit: str) -> Chart:
    """Draws counts of whole numbers; neighbours share a bar where there are too many.

    Args:
      title: of the chart.
      counts: split -> number (as a string) -> count; not all empty.
      per_unit: how many of the numbers make one unit.
      unit: what the axis counts.
    """
    numbers = sorted({int(key) for tally in counts.values() for key in tally})
    step = _step(numbers[-1] - numbers[0] + 1, _MAX_BINS)
    first, last = numbers[0] // step, numbers[-1] // step
    heights = [dict.fromkeys(counts, 0) for _ in range(first, last + 1)]
    for split, tally in counts.items():
        for key, count in tally.items():
            heights[int(key) // step - first][split] += count
    edges = [bin_number * step / per_unit for bin_number in range(first, last + 2)]
    names = [f"{low:g} to {high:g} {unit}" for low, high in zip(edges, edges[1:])]
    every = _step(len(names), _MAX_TICKS)
    ticks = [(place, f"{edges[place]:g}") for place in range(len(names)) if (first + place) % every == 0]
    return _draw(title, names, heights, ticks, offset=0.0)


def categories(title: str, counts: Counts, order: Iterable[str]) -> Chart:
    """Draws counts of words in the given order; those that nobody has stand there without a bar."""
    names = list(order)
    heights = [{split: tally.get(name, 0) for split, tally in counts.items()} for name in names]
    return _draw(title, names, heights, list(enumerate(names)), offset=0.5)


def _draw(
    title: str,
    names: Sequence[str],
    heights: Sequence[Mapping[str, int]],
    ticks: Sequence[tuple[int, str]],
    offset: float,
) -> Chart:
    """Scales what is to be drawn; offset is where in a bin its label stands, from 0 to 1."""
    highest = max(sum(bar.values()) for bar in heights)
    width = WIDTH / len(names)
    bars = tuple(
        Bar(place * width, 0.86 * width, _say(name, bar), _stack(bar, highest))
        for place, (name, bar) in enumerate(zip(names, heights))
        if any(bar.values())
    )
    scaled = tuple(((place + offset * 0.86) * width, label) for place, label in ticks)
    return Chart(title, bars, scaled, highest)


def _stack(bar: Mapping[str, int], highest: int) -> tuple[tuple[float, float, int], ...]:
    parts, top = [], float(HEIGHT)
    for number, count in enumerate(bar.values()):
        height = HEIGHT * count / highest
        top -= height
        if count:
            parts.append((top, height, number))
    return tuple(parts)


def _say(name: str, bar: Mapping[str, int]) -> str:
    return f"{name}: " + ", ".join(f"{count:,} {split}" for split, count in bar.items() if count)


def _step(size: int, most: int) -> int:
    """Gives the smallest of 1, 2, 5, 10, 20, ... of which no more than `most` make up size."""
    scales = (10**power * step for power in itertools.count() for step in _STEPS)
    return next(step for step in scales if size <= most * step)
