"""The queue of utterances: in the order of their turns, and at most so many seconds of audio."""

from __future__ import annotations

import asyncio
import dataclasses
import operator
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.saved_model import recogniser, statuses
from estimator_asr.server import api_errors, versions

_SHORTEST_SECONDS = 0.1  # what an item costs at least
# The memory of attention: the square of the length for each item, with its padding.
_MAX_SQUARE_SECONDS = statuses.MAX_SECONDS**2
INTERIM_SECONDS = 0.5  # that interim results wait at least for others, if there are some
_FIRST_RATE = 10.0  # seconds of audio per second, before any is measured


class Group(NamedTuple):
    """Items of one group can be in one batch: hotwords are for all of it."""

    version: versions.ServedVersion
    signature: str
    hotwords: tuple[str, ...] = ()
    is_interim: bool = False  # of speech that has not ended: it waits for what has


@dataclasses.dataclass(eq=False)
class Item:
    """One utterance."""

    group: Group
    row: Mapping[str, bytes | np.ndarray]  # each input but hotwords, without the axis of the batch
    seconds: float  # of audio
    result: asyncio.Future = dataclasses.field(init=False)  # its outputs, see versions.ServedVersion.run
    arrival: float = dataclasses.field(init=False)  # time.monotonic()
    turn: float = dataclasses.field(init=False)  # the same, later for what follows others of its request
    is_urgent: bool = dataclasses.field(init=False, default=False)  # asks for the server's health

    def __post_init__(self):
        self.seconds = max(self.seconds, _SHORTEST_SECONDS)
        self.result = asyncio.get_running_loop().create_future()
        self.arrival = self.turn = time.monotonic()


def make_item(
    version: versions.ServedVersion,
    waveform: np.ndarray,
    hotwords: tuple[str, ...],
    is_interim: bool = False,
) -> Item:
    """Returns the item of audio, float32 [num_samples] at the version's rate.

    Raises:
        api_errors.ApiError: there are hotwords, and the model takes none.
    """
    signature = f"waveform_{recogniser.HOTWORDS}" if hotwords else "waveform"
    if signature not in version.definitions:
        raise api_errors.refuse(
            "hotwords: the model takes none, expected a model of syllables that searches with a beam; "
            "leave them out"
        )
    row = {"waveform": waveform, "num_samples": np.int32(len(waveform))}
    group = Group(version, signature, hotwords, is_interim)
    return Item(group, row, len(waveform) / version.sample_rate)


def make_piece(version: versions.ServedVersion, piece: Mapping[str, np.ndarray]) -> Item:
    """Returns the item of a piece of a stream, see stream_client.GrowingSegment."""
    seconds = len(piece["waveform"]) / version.sample_rate
    return Item(Group(version, "stream", is_interim=True), piece, seconds)


class ItemQueue:
    """Items that wait.

    Attributes:
        items: in the order of their turns.
        rate: seconds of audio that are recognised per second, a moving average.
    """

    def __init__(self, max_seconds: float):
        self._max_seconds = max_seconds
        self.items: list[Item] = []
        self.rate = _FIRST_RATE

    @property
    def seconds(self) -> float:
        return sum(item.seconds for item in self.items)

    def add(self, batch: Sequence[Item], is_urgent: bool) -> None:
        """Adds the items of a request.

        They follow each other as if spoken, so that short requests come in between. What has its turn after
        the last one takes none of their room: a long request refuses no short one.

        Raises:
            api_errors.ApiError: there is no room; one request of any length is accepted if nothing comes
                before its end, as it has a limit of its own.
        """
        seconds = 0.0
        for item in batch:
            item.is_urgent = is_urgent
            item.turn = float("-inf") if is_urgent else item.arrival + seconds / self.rate
            item.turn += INTERIM_SECONDS * item.group.is_interim
            seconds += item.seconds
        waiting = sum(item.seconds for item in self.items if batch and item.turn <= batch[-1].turn)
        excess = waiting + seconds - self._max_seconds
        if waiting and excess > 0 and not is_urgent:
            got = f"{waiting:.0f} s of audio wait and the request has {seconds:.0f} s"
            problem = f"{got}, expected at most {self._max_seconds:g} s together"
            raise api_errors.overloaded(problem, min(excess, waiting) / self.rate)
        self.items[:] = sorted([*self.items, *batch], key=operator.attrgetter("turn"))

    def remove(self, batch: Sequence[Item]) -> None:
        gone = set(map(id, batch))
        self.items[:] = [item for item in self.items if id(item) not in gone]

    def take(self, max_size: int) -> list[Item]:
        """Takes the item whose turn it is and those of its group whose length is nearest to its own."""
        self.items[:] = [item for item in self.items if not item.result.done()]
        if not self.items:
            return []
        first = self.items[0]
        others = [item for item in self.items[1:] if item.group == first.group]
        batch, longest = [first], first.seconds
        for item in sorted(others, key=lambda item: abs(item.seconds - first.seconds)):
            longest = max(longest, item.seconds)
            if len(batch) >= max_size or (len(batch) + 1) * longest**2 > _MAX_SQUARE_SECONDS:
                break
            batch.append(item)
        self.remove(batch)
        return batch
