"""Client for the signatures in streams.py: keeps the states of streams and cuts recordings into pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.exporting.saved_model import recogniser

State = dict[str, np.ndarray]  # one row per stream; a single stream's state has no batch axis


class StreamClient(NamedTuple):
    """Recognises streams piece by piece with the signatures stream_start and stream (or stream_features)."""

    starts: recogniser.Recogniser
    pieces: recogniser.Recogniser

    def start(self, count: int) -> State:
        """Returns the state of `count` new streams."""
        rows = self.starts.fetch({"num_streams": np.int32(count)})
        return {name: rows[name] for name in self.pieces.inputs if name.startswith(recogniser.STATE)}

    def start_one(self) -> State:
        """Returns the state of one new stream, without the batch axis."""
        return {name: rows[0] for name, rows in self.start(1).items()}

    def feed(self, state: State, batch: Mapping[str, np.ndarray]) -> tuple[dict[str, list], State]:
        """Returns each stream's outputs, as Recogniser.run does, and the streams' state after these pieces.

        `batch` contains all inputs of the signature except the state.
        """
        outputs = self.pieces.fetch({**batch, **state})
        after = {name: outputs.pop(name) for name in state}
        return recogniser.list_results(outputs), after


def find(version: recogniser.LoadedVersion, signature: str) -> Optional[StreamClient]:
    """Returns a client for the signature `stream` or `stream_features`; None if the model does not stream."""
    if not version.info.chunk_frames:
        return None
    return StreamClient(version.find("stream_start"), version.find(signature))


class GrowingSegment:
    """A segment of audio that is still growing, and the stream state after the samples recognised so far."""

    def __init__(self, start: State):
        """Starts without a segment; `start` is the state of a new stream, without the batch axis."""
        self._new, self._place, self._num_recognised, self._state = start, -1, 0, start

    def next_piece(self, place: int, waveform: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the inputs of `stream` for the new samples in the segment that begins at sample `place`.

        `waveform` is the segment so far, float32 [num_samples]. A different `place` starts a new segment.
        """
        if place != self._place:
            self._place, self._num_recognised, self._state = place, 0, self._new
        piece = waveform[self._num_recognised :]
        return {
            "waveform": piece,
            "num_samples": np.int32(len(piece)),
            "is_last": np.bool_(False),
            **self._state,
        }

    def keep(self, result: dict, num_samples: int) -> dict:
        """Keeps the state after the last piece; returns the result of that piece without the state.

        `num_samples` is the number of the segment's samples up to the end of that piece.
        """
        # The rows are copied, because a view of a row would keep the states of the whole batch in memory.
        self._state = {name: result[name].copy() for name in self._state}
        self._num_recognised = num_samples
        return {name: value for name, value in result.items() if name not in self._state}

    def end(self) -> None:
        """Forgets the segment."""
        self._place, self._state = -1, self._new


def cut(
    batch: Mapping[str, np.ndarray], names: tuple[str, str], size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Cuts a batch of recordings into pieces; is_last is True from a recording's last piece on.

    `names` are the names, in `batch`, of the values, [batch, max_length, ...], and of their lengths, int32
    [batch]; `size` is the number of samples or frames per piece.
    """
    values, lengths = (np.asarray(batch[name]) for name in names)
    for start in range(0, max(int(lengths.max(initial=0)), 1), size):
        piece_lengths = np.clip(lengths - start, 0, size).astype(np.int32)
        yield {
            names[0]: values[:, start : start + size],
            names[1]: piece_lengths,
            "is_last": lengths <= start + size,
        }
