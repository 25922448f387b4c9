"""Compares the losses of two sides that train the same model, and times their loops in turns."""

import time
from collections.abc import Callable, Mapping

from benchmarks import bars

_NUM_COMPARED = 3
MAX_MILLIONTHS = 100


def compare(sides: Mapping, name: str = "", max_millionths: float = MAX_MILLIONTHS) -> list[bars.Bar]:
    """Runs a few training steps on both sides, and prints each step's loss and gradient norm.

    Args:
        sides: our side and the peer's, by name; the method step() returns the loss and the gradient norm.
        name: prefix of the bars' names.
        max_millionths: maximum relative difference, in millionths.
    """
    apart = {"loss": 0.0, "gradient norm": 0.0}
    for number in range(1, _NUM_COMPARED + 1):
        figures = {side: dict(zip(apart, each.step())) for side, each in sides.items()}
        for what in apart:
            ours, peers = (figures[side][what] for side in sides)
            apart[what] = max(apart[what], abs(ours / peers - 1))
            print(f"step {number}  {what:14}{ours:12.6f} ours{peers:12.6f} PyTorch")
    return [
        bars.Bar(f"{name}{what}, apart by millionths", 1e6 * value, maximum=max_millionths)
        for what, value in apart.items()
    ]


def time_in_turns(loops: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Returns each loop's seconds in each round, except the first round, which allocates memory."""
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(rounds + 1):
        for name, run in loops.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds
