"""The queue of utterances: ordered by turn, with a limit on the total seconds of audio."""

from __future__ import annotations

import asyncio
import dataclasses
import operator
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.exporting.saved_model import recogniser, statuses
from estimator_asr.serving.server import api_errors, versions

_SHORTEST_SECONDS = 0.1  # shorter items count as this long
# Attention's memory is proportional to batch size x (seconds of the longest item)^2. A batch may use as much
# memory as a single item of maximum length.
_MAX_SQUARE_SECONDS = statuses.MAX_SECONDS**2
INTERIM_SECONDS = 0.5  # interim results are queued as if they had arrived this much later
_FIRST_RATE = 10.0  # seconds of audio per second, assumed until a batch has been measured


class Group(NamedTuple):
    """Items can share a batch only if their groups are equal, including the hotwords."""

    version: versions.ServedVersion
    signature: str
    hotwords: tuple[str, ...] = ()
    is_interim: bool = False  # the speech has not ended; items whose speech has ended go first


@dataclasses.dataclass(eq=False)
class QueuedUtterance:
    """One utterance."""

    group: Group
    row: Mapping[str, bytes | np.ndarray]  # the inputs except hotwords, without the batch axis
    seconds: float  # length of the audio
    result: asyncio.Future = dataclasses.field(init=False)  # the outputs; see versions.ServedVersion.run
    arrival: float = dataclasses.field(init=False)  # time.monotonic()
    turn: float = dataclasses.field(init=False)  # the earliest turn is recognised first; see ItemQueue.add
    is_urgent: bool = dataclasses.field(init=False, default=False)  # a health check

    def __post_init__(self):
        self.seconds = max(self.seconds, _SHORTEST_SECONDS)
        self.result = asyncio.get_running_loop().create_future()
        self.arrival = self.turn = time.monotonic()


def make_item(
    version: versions.ServedVersion,
    waveform: np.ndarray,
    hotwords: tuple[str, ...],
    is_interim: bool = False,
) -> QueuedUtterance:
    """Returns the item for a waveform, float32 [num_samples] at the version's sample rate.

    Raises:
        api_errors.ApiError: the request has hotwords, but the model does not support them.
    """
    signature = f"waveform_{recogniser.HOTWORDS}" if hotwords else "waveform"
    if signature not in version.definitions:
        raise api_errors.refuse(
            "the model does not support hotwords, because it is not a syllable model with beam search; "
            "leave the hotwords out"
        )
    row = {"waveform": waveform, "num_samples": np.int32(len(waveform))}
    group = Group(version, signature, hotwords, is_interim)
    return QueuedUtterance(group, row, len(waveform) / version.sample_rate)


def make_piece(version: versions.ServedVersion, piece: Mapping[str, np.ndarray]) -> QueuedUtterance:
    """Returns the item for a piece of a stream; see stream_client.GrowingSegment."""
    seconds = len(piece["waveform"]) / version.sample_rate
    return QueuedUtterance(Group(version, "stream", is_interim=True), piece, seconds)


class ItemQueue:
    """The items that are waiting to be recognised.

    Attributes:
        items: the waiting items in the order of their turns.
        rate: seconds of audio recognised per second, a moving average.
    """

    def __init__(self, max_seconds: float):
        self._max_seconds = max_seconds
        self.items: list[QueuedUtterance] = []
        self.rate = _FIRST_RATE

    @property
    def seconds(self) -> float:
        return sum(item.seconds for item in self.items)

    def add(self, batch: Sequence[QueuedUtterance], is_urgent: bool) -> None:
        """Adds the items of a request.

        An item's turn is the time at which, at the measured rate, the earlier items in its request will be
        done, so short requests go in between. Waiting items whose turn comes after that of the last new item
        do not count towards the limit, so a long request does not keep short ones out.

        Raises:
            api_errors.ApiError: the queue is full. If no waiting item has its turn before the request's last
                item, the request is accepted whatever its length; other limits apply to its length.
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
            sizes = f"{waiting:.0f} s of audio are waiting and this request has {seconds:.0f} s"
            problem = f"{sizes} (limit: {self._max_seconds:g} s together)"
            raise api_errors.overloaded(problem, min(excess, waiting) / self.rate)
        self.items[:] = sorted([*self.items, *batch], key=operator.attrgetter("turn"))

    def remove(self, batch: Sequence[QueuedUtterance]) -> None:
        removed = set(map(id, batch))
        self.items[:] = [item for item in self.items if id(item) not in removed]

    def take(self, max_size: int) -> list[QueuedUtterance]:
        """Removes and returns the first item, and the items in its group that are closest to it in length."""
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
