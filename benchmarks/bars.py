"""The bars of a benchmark: limits that measurements must meet."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Bar:
    """A measurement with its lower or upper limit."""

    what: str
    value: float
    minimum: float = float("-inf")
    maximum: float = float("inf")

    @property
    def is_met(self) -> bool:
        return self.minimum <= self.value <= self.maximum

    def __str__(self) -> str:
        limits = [f"at least {self.minimum:,g}"] if self.minimum > float("-inf") else []
        limits += [f"at most {self.maximum:,g}"] if self.maximum < float("inf") else []
        return f"{'PASS' if self.is_met else 'FAIL'}  {self.what}: {self.value:,.2f} ({' and '.join(limits)})"


def show(bars: Sequence[Bar]) -> int:
    """Prints the bars below an empty line; returns the exit code, which is 1 if a bar is missed."""
    print("\n".join(["", *map(str, bars)]))
    return 0 if all(bar.is_met for bar in bars) else 1


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Returns the median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(above, below))
