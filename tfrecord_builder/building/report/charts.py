"""Bar charts for report.html, and the counts of tones, initials and finals that some charts show."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tfrecord_builder.data import syllables

_MAX_BINS = 60
_MAX_LABELS = 12
ER_HUA = "er-hua"
NO_INITIAL = "none"
OTHER_TONE = "other"
INITIALS = tuple(initial or NO_INITIAL for initial in syllables.INITIALS)

_FINALS = {*syllables.FINALS, "e"}  # _split_part strips the r from "er"

Counts = Mapping[str, Mapping[str, int]]  # split -> key -> count


class Bar(NamedTuple):
    """One bar: its name, its label below the axis (may be empty), and its count for each split."""

    name: str
    label: str
    counts: Mapping[str, int]

    @property
    def title(self) -> str:
        """The bar's tooltip."""
        counts = [f"{count:,} {split}" for split, count in self.counts.items() if count]
        return f"{self.name}: {', '.join(counts) or 0}"


class Chart(NamedTuple):
    """A bar chart: its title and its bars from left to right."""

    title: str
    bars: Sequence[Bar]

    @property
    def highest(self) -> int:
        return max(sum(bar.counts.values()) for bar in self.bars)


def histogram(title: str, counts: Counts, per_unit: int, unit: str) -> Chart:
    """Makes a histogram of integer keys, given as strings; adjacent keys share a bar if there are many keys.

    The axis shows the keys divided by per_unit.
    """
    numbers = [int(key) for split_counts in counts.values() for key in split_counts]
    lowest, highest = min(numbers), max(numbers)
    step = _step(highest - lowest + 1, _MAX_BINS)
    bins = {place: dict.fromkeys(counts, 0) for place in range(lowest // step, highest // step + 1)}
    for split, split_counts in counts.items():
        for key, count in split_counts.items():
            bins[int(key) // step][split] += count
    label_step = _step(len(bins), _MAX_LABELS)
    bars = []
    for place, bin_counts in bins.items():
        low, high = (f"{edge * step / per_unit:g}" for edge in (place, place + 1))
        bars.append(Bar(f"{low} to {high} {unit}", "" if place % label_step else low, bin_counts))
    return Chart(f"{title} ({unit})", bars)


def categories(title: str, counts: Counts, names: Iterable[str]) -> Chart:
    """Makes a chart with one bar per name, in the order of `names`."""
    return Chart(
        title, [Bar(name, name, {split: counts[split].get(name, 0) for split in counts}) for name in names]
    )


def count_sounds(token_counts: Mapping[str, int], token_type: str) -> dict[str, dict[str, int]]:
    """Counts the "tones", "initials" and "finals" in tokens; returns {} if the token type is not pinyin.

    A final with er-hua is counted twice, once without its r and once as ER_HUA. Letters, digits and other
    tokens that are not pinyin are counted as OTHER_TONE.
    """
    if token_type not in _SPLIT:
        return {}
    sounds = {name: collections.Counter() for name in ("tones", "initials", "finals")}
    for token, number in token_counts.items():
        initial, final, tone = _SPLIT[token_type](token)
        if initial is final is None:
            tone = OTHER_TONE
        if final and final.endswith("r") and final != "er":
            final = final[:-1]
            sounds["finals"][ER_HUA] += number
        for name, part in (("initials", initial), ("finals", final), ("tones", tone)):
            if part is not None:
                sounds[name][part] += number
    if token_type == "toneless":
        del sounds["tones"]
    return sounds


def _step(size: int, most: int) -> int:
    """Returns the smallest width from 1, 2, 5, 10, 20, ... that divides `size` into at most `most` bins."""
    steps = (10**power * factor for power in itertools.count() for factor in (1, 2, 5))
    return next(step for step in steps if size <= most * step)


def _split_syllable(token):
    """Splits a token of type syllable into (initial, final, tone); a missing part is None."""
    initial, final, tone = syllables.split_syllable(token) or (None, None, None)
    return NO_INITIAL if initial == "" else initial, final, tone


def _split_toneless(token):
    return (*_split_syllable(f"{token}5")[:2], None)


def _split_part(token):
    if token in syllables.INITIALS:
        return token, None, None
    final, tone = token[:-1], token[-1:]
    is_final = tone in syllables.TONES and final.removesuffix("r") in _FINALS
    return (None, final, tone) if is_final else (None, None, None)


_SPLIT = {"syllable": _split_syllable, "toneless": _split_toneless, "initial_final": _split_part}
