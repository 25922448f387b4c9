"""Client of the signatures of streams.py: the state of many streams, and how recordings are cut to pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.saved_model import recogniser

State = dict[str, np.ndarray]  # one row for each stream, or without the axis of the batch that of one


class StreamClient(NamedTuple):
    """Recognises pieces of streams: the signatures stream_start, and stream or stream_features."""

    starts: recogniser.Recogniser
    pieces: recogniser.Recogniser

    def start(self, count: int) -> State:
        """Returns the state of new streams."""
        rows = self.starts.fetch({"num_streams": np.int32(count)})
        return {name: rows[name] for name in self.pieces.inputs if name.startswith(recogniser.STATE)}

    def start_one(self) -> State:
        """Returns the state of a new stream, without the axis of the batch."""
        return {name: rows[0] for name, rows in self.start(1).items()}

    def feed(self, state: State, batch: Mapping[str, np.ndarray]) -> tuple[dict[str, list], State]:
        """Returns the outputs of each stream, as Recogniser.run does, and the state after a piece of each.

        `batch` has the inputs of the signature beside the state.
        """
        fetched = self.pieces.fetch({**batch, **state})
        after = {name: fetched.pop(name) for name in state}
        return recogniser.list_results(fetched), after


def find(version: recogniser.LoadedVersion, signature: str) -> Optional[StreamClient]:
    """Returns the client of `stream` or `stream_features`; None if the model does not stream."""
    if not version.info.chunk_frames:
        return None
    return StreamClient(version.find("stream_start"), version.find(signature))


class GrowingSegment:
    """A segment of audio that is being spoken: what of it is still to be heard, with the state before it."""

    def __init__(self, start: State):
        """Takes the state of a new stream, without the axis of the batch."""
        self._new, self._place, self._num_heard, self._state = start, -1, 0, start

    def next_piece(self, place: int, waveform: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the inputs of `stream` for a segment that begins at sample `place`, as far as it is spoken.

        Another place begins another segment. `waveform` is float32 [num_samples], all of it.
        """
        if place != self._place:
            self._place, self._num_heard, self._state = place, 0, self._new
        piece = waveform[self._num_heard :]
        return {
            "waveform": piece,
            "num_samples": np.int32(len(piece)),
            "is_last": np.bool_(False),
            **self._state,
        }

    def keep(self, result: dict, num_samples: int) -> dict:
        """Keeps the state after the last piece; returns the result of it without the state.

        num_samples: of the waveform that the piece was the end of.
        """
        # A copy: the row is a view of the states of a whole batch.
        self._state = {name: result[name].copy() for name in self._state}
        self._num_heard = num_samples
        return {name: value for name, value in result.items() if name not in self._state}

    def end(self) -> None:
        """Forgets the segment."""
        self._place, self._state = -1, self._new


def cut(
    batch: Mapping[str, np.ndarray], names: tuple[str, str], size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yields pieces of recordings, which end at the same time or before.

    Args:
        batch: inputs of a signature: values, [batch, max_length, ...], and lengths, int32 [batch].
        names: of both.
        size: samples or frames of a piece.
    """
    values, lengths = (np.asarray(batch[name]) for name in names)
    for start in range(0, max(int(lengths.max(initial=0)), 1), size):
        left = np.clip(lengths - start, 0, size).astype(np.int32)
        yield {
            names[0]: values[:, start : start + size],
            names[1]: left,
            "is_last": lengths <= start + size,
        }
