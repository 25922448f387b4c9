"""What is recognised in batches: the inputs of one utterance for one signature of a version."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from estimator_asr.server import served_version

_SHORTEST_SECONDS = 0.1  # what an item costs at least


class Group(NamedTuple):
    """Items of one group can be in one batch: hotwords are for all of it."""

    version: served_version.ServedVersion
    signature: str
    hotwords: tuple[str, ...] = ()


@dataclasses.dataclass(eq=False)
class Item:
    """One utterance.

    Attributes:
        group: what it can be in a batch with.
        row: value of each input, without the axis of the batch; all but hotwords.
        seconds: of audio, for the queue and for batches of similar length.
        result: future of its row of the outputs.
        arrival: time.monotonic().
        turn: the same, later for what other items of its request precede.
        is_urgent: whether it asks for the server's health; it comes first and is not counted.
    """

    group: Group
    row: Mapping[str, bytes | np.ndarray]
    seconds: float
    result: asyncio.Future = dataclasses.field(init=False)
    arrival: float = dataclasses.field(init=False)
    turn: float = dataclasses.field(init=False)
    is_urgent: bool = dataclasses.field(init=False, default=False)

    def __post_init__(self):
        self.seconds = max(self.seconds, _SHORTEST_SECONDS)
        self.result = asyncio.get_running_loop().create_future()
        self.arrival = self.turn = time.monotonic()
