"""A loaded version of an export, and the utterances that are queued for recognition."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.exporting.saved_model import recogniser, stream_client
from estimator_asr.serving.server import api_errors
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files

_SHORTEST_SECONDS = 0.1  # shorter utterances count as this long
_LINE_LENGTH = 300  # maximum number of characters quoted from a TensorFlow message
# Messages from the graph's assertions begin with a code or, in exports from release 0.1.0, with `hotwords`.
_REFUSAL = re.compile(r"\[(?:E_[A-Z_]+: |(?=hotwords: ))(.*)\]")
Row = Mapping[str, "bytes | np.ndarray"]  # the inputs of one utterance, without the batch axis


class Group(NamedTuple):
    """Batching key: items can share a batch only if their groups are equal, including the hotwords."""

    version: ServedVersion
    signature: str
    hotwords: tuple[str, ...] = ()
    is_interim: bool = False  # the speech has not ended; items whose speech has ended go first


@dataclasses.dataclass(eq=False)
class QueuedUtterance:
    """An utterance that is waiting to be recognised, and a future for its outputs."""

    group: Group
    row: Row  # the inputs except hotwords
    seconds: float  # length of the audio
    result: asyncio.Future = dataclasses.field(init=False)  # the outputs; see ServedVersion.run
    arrival: float = dataclasses.field(init=False)  # time of arrival, from time.monotonic()
    turn: float = dataclasses.field(init=False)  # the item with the earliest turn is recognised first
    is_urgent: bool = dataclasses.field(init=False, default=False)  # True for a health check

    def __post_init__(self):
        self.seconds = max(self.seconds, _SHORTEST_SECONDS)
        self.result = asyncio.get_running_loop().create_future()
        self.arrival = self.turn = time.monotonic()


class ServedVersion:
    """A loaded version; its session is closed once the version is retired and no request uses it.

    Attributes:
        number: name of the version's directory, or "" if the name is not a number.
        info: contents of export.json.
        definitions: maps signature names to SignatureDefs. Streaming signatures are left out, because only
            programs that load the export can use their state.
        punctuate: recogniser for the signature "punctuate"; None if there is no punctuation model.
        stream_start: initial state of a stream (see stream_client.py); None if the model does not stream.
        load_seconds: seconds that loading and the first batches took.
    """

    def __init__(self, version_dir: str):
        """Loads a version and warms it up; raises errors.UserError if it cannot recognise audio."""
        started = time.monotonic()
        name = os.path.basename(os.path.normpath(version_dir))
        self.version_dir, self.number = version_dir, name if name.isdecimal() else ""
        self._loaded = recogniser.load_version(version_dir)
        self.info, definitions = self._loaded.info, self._loaded.definitions
        # A stream's state and log_probs are too large for JSON.
        names = [name for name in definitions if not name.startswith("stream") and name != "log_probs"]
        self.definitions = {name: definitions[name] for name in names}
        self.num_users, self._is_retired = 0, False
        try:
            names = [name for name in definitions if name[0] != "_"]
            self._recognisers = {name: self._loaded.find(name) for name in names}
            self.punctuate = self._loaded.find_punctuate()
            streams = stream_client.find(self._loaded, "stream")
            self.stream_start = streams and streams.start_one()
            self._warm_up()
        except errors.UserError:
            self._loaded.session.close()
            raise
        self.load_seconds = time.monotonic() - started

    @property
    def sample_rate(self) -> int:
        """Sample rate of the waveforms in Hz."""
        return self.info.frontend.sample_rate

    def make_probe(self) -> Row:
        """Returns a second of noise as a row of inputs for the signature `waveform`."""
        noise = np.random.default_rng(0).normal(0, 0.1, self.sample_rate).astype(np.float32)
        return {"waveform": noise, "num_samples": np.int32(noise.size)}

    def make_item(
        self, waveform: np.ndarray, hotwords: tuple[str, ...] = (), is_interim: bool = False
    ) -> QueuedUtterance:
        """Returns the utterance for a waveform, float32 [num_samples] at the version's sample rate.

        Raises api_errors.ApiError if there are hotwords, but the model does not support them.
        """
        signature = f"waveform_{recogniser.HOTWORDS}" if hotwords else "waveform"
        if signature not in self.definitions:
            raise api_errors.refuse(
                "the model does not support hotwords, because it is not a syllable model with beam search; "
                "omit the hotwords"
            )
        row = {"waveform": waveform, "num_samples": np.int32(len(waveform))}
        group = Group(self, signature, hotwords, is_interim)
        return QueuedUtterance(group, row, len(waveform) / self.sample_rate)

    def make_piece(self, piece: Row) -> QueuedUtterance:
        """Returns the utterance for a piece of a stream; see stream_client.GrowingSegment."""
        seconds = len(piece["waveform"]) / self.sample_rate
        return QueuedUtterance(Group(self, "stream", is_interim=True), piece, seconds)

    def run(self, signature: str, hotwords: Sequence[str], rows: Sequence[Row]) -> list[dict]:
        """Recognises rows that share the same hotwords; each row contains the inputs without the batch axis.

        Returns the outputs for each row, named as in recogniser.Recogniser.run. Raises errors.UserError if
        the graph rejects the inputs.
        """
        batch = {name: _stack([row[name] for row in rows]) for name in rows[0]}
        try:
            columns = self._recognisers[signature].run(
                {**batch, recogniser.HOTWORDS: np.array(hotwords, object)}
            )
        except tf.errors.InvalidArgumentError as error:
            sentence = _REFUSAL.search(error.message)
            problem = sentence[1] if sentence else f"the model rejected the inputs ({_describe(error)})"
            raise errors.UserError(problem) from error
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    @contextlib.contextmanager
    def used(self) -> Iterator[ServedVersion]:
        """Keeps the session open during the block, even if another version takes over."""
        self.num_users += 1
        try:
            yield self
        finally:
            self.num_users -= 1
            self._close_if_unused()

    def retire(self) -> None:
        """Closes the session as soon as no request uses it any more."""
        self._is_retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_retired and not self.num_users:
            self._loaded.session.close()

    def _warm_up(self) -> None:
        definition = self.definitions.get("waveform")
        if definition is None or "status" not in definition.outputs:
            missing = "signature waveform" if definition is None else "output status"
            raise errors.UserError(
                f"{self.version_dir} has no {missing}, so it is from another release; export the model again"
            )
        probe = self.make_probe()
        wav = audio_files.encode_wav(probe["waveform"], self.sample_rate)
        try:
            self.run("waveform", (), [probe])
            self.run("serving_default", (), [{"wav_bytes": wav}])
            if self.stream_start:
                self.run("stream", (), [{**probe, "is_last": np.bool_(False), **self.stream_start}])
        except (errors.UserError, tf.errors.OpError, KeyError) as error:
            raise errors.UserError(
                f"{self.version_dir} failed a test with a second of noise ({_describe(error)}); "
                "export the model again"
            ) from error


def _stack(values: Sequence[bytes | np.ndarray]) -> np.ndarray:
    if isinstance(values[0], bytes):
        return np.array(values, object)
    if len({value.shape for value in values}) == 1:
        return np.stack(values)
    longest = max(map(len, values))
    return np.stack([np.pad(v, [(0, longest - len(v))] + [(0, 0)] * (v.ndim - 1)) for v in values])


def _describe(error: Exception) -> str:
    words = (getattr(error, "message", None) or str(error)).split()
    return " ".join(words)[:_LINE_LENGTH] or type(error).__name__
