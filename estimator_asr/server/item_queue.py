"""The queue of items: in the order of their turns, and at most so many seconds of audio."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from estimator_asr.saved_model import statuses
from estimator_asr.server import api_errors, items

# The memory of attention: the square of the length for each item, with its padding.
_MAX_SQUARE_SECONDS = statuses.MAX_SECONDS**2


class ItemQueue:
    """Items that wait.

    Attributes:
        items: in the order of their turns.
    """

    def __init__(self, max_seconds: float):
        self._max_seconds = max_seconds
        self.items: list[items.Item] = []

    @property
    def seconds(self) -> float:
        return sum(item.seconds for item in self.items)

    def add(self, batch: Sequence[items.Item], rate: float, is_urgent: bool) -> None:
        """Adds the items of a request; `rate` is the seconds of audio that are recognised per second.

        Raises:
            api_errors.ApiError: there is no room.
        """
        _set_turns(batch, rate, is_urgent)
        if batch and not is_urgent:
            self._check_room(batch, rate)
        self.items[:] = sorted([*self.items, *batch], key=operator.attrgetter("turn"))

    def remove(self, batch: Sequence[items.Item]) -> None:
        gone = set(map(id, batch))
        self.items[:] = [item for item in self.items if id(item) not in gone]

    def take(self, max_size: int) -> list[items.Item]:
        """Takes the item whose turn it is and those of its group whose length is nearest to its own."""
        self.items[:] = [item for item in self.items if not item.result.done()]
        if not self.items:
            return []
        oldest = self.items[0]
        others = [item for item in self.items[1:] if item.group == oldest.group]
        nearest = sorted(others, key=lambda item: abs(item.seconds - oldest.seconds))
        batch = _fill([oldest], nearest, max_size)
        self.remove(batch)
        return batch

    def _check_room(self, batch: Sequence[items.Item], rate: float) -> None:
        """What has its turn after the request takes none of its room: a long request refuses no short one.

        One request of any length is accepted if nothing comes before its end: it has a limit of its own.
        """
        seconds = sum(item.seconds for item in batch)
        waiting = sum(item.seconds for item in self.items if item.turn <= batch[-1].turn)
        if waiting and waiting + seconds > self._max_seconds:
            excess = waiting + seconds - self._max_seconds
            raise api_errors.overloaded(
                f"{waiting:.0f} s of audio wait, expected at most {self._max_seconds:g} s",
                min(excess, waiting) / rate,
            )


def _set_turns(batch: Sequence[items.Item], rate: float, is_urgent: bool) -> None:
    """The items of a long request follow each other as if spoken, so that short ones come in between."""
    waited = 0.0
    for item in batch:
        item.is_urgent = is_urgent
        item.turn = float("-inf") if is_urgent else item.arrival + waited / rate
        waited += item.seconds


def _fill(batch: list[items.Item], others: Sequence[items.Item], max_size: int) -> list[items.Item]:
    """Adds items to a batch in their order while its size and its memory allow."""
    longest = max(item.seconds for item in batch)
    for item in others:
        longest = max(longest, item.seconds)
        if len(batch) >= max_size or (len(batch) + 1) * longest**2 > _MAX_SQUARE_SECONDS:
            break
        batch.append(item)
    return batch
