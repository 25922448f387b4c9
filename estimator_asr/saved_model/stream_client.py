"""Client of the signatures of streams.py: the state of many streams, and how recordings are cut to pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from estimator_asr.saved_model import recogniser

_STATE = "state_"

State = dict[str, np.ndarray]  # one row for each stream


class StreamClient(NamedTuple):
    """Recognises pieces of streams: the signatures stream_start, and stream or stream_features."""

    starts: recogniser.Recogniser
    pieces: recogniser.Recogniser

    def start(self, count: int) -> State:
        """Returns the state of new streams."""
        rows = self.starts.fetch({"num_streams": np.int32(count)})
        return {name: rows[name] for name in self.pieces.inputs if name.startswith(_STATE)}

    def feed(self, state: State, batch: Mapping[str, np.ndarray]) -> tuple[dict[str, list], State]:
        """Returns the outputs of each stream, as Recogniser.run does, and the state after a piece of each.

        `batch` has the inputs of the signature beside the state.
        """
        fetched = self.pieces.fetch({**batch, **state})
        after = {name: fetched.pop(name) for name in list(fetched) if name.startswith(_STATE)}
        return recogniser.list_results(fetched), after


def cut(
    batch: Mapping[str, np.ndarray], names: tuple[str, str], size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yields pieces of recordings, which end at the same time or before.

    Args:
        batch: values [batch, max_length, ...] and lengths, int [batch], under these names.
        size: length of a piece.
    """
    values, lengths = (np.asarray(batch[name]) for name in names)
    for start in range(0, max(int(lengths.max(initial=0)), 1), size):
        left = np.clip(lengths - start, 0, size).astype(np.int32)
        yield {
            names[0]: values[:, start : start + size],
            names[1]: left,
            "is_last": lengths <= start + size,
        }
