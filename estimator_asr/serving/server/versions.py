"""The version that is served; a newer version is loaded alongside it and takes over without dropped requests.

The copying of a new version may not be finished, so it is loaded once two successive polls find the same
files. A version that fails to load is tried again when its files change. If the current version is removed,
the newest one that can be loaded takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr.exporting.saved_model import recogniser, stream_client
from estimator_asr.serving.server import metrics
from estimator_asr.serving.transcripts import live
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files

POLL_SECONDS = 2.0
_LOG_SECONDS = 60
_LINE_LENGTH = 300  # maximum number of characters shown from a TensorFlow message
# An error sentence from the graph, after its code; exports from 0.1.0 have one sentence without a code.
_REFUSAL = re.compile(r"\[(?:E_[A-Z_]+: |(?=hotwords: .*; fix it\]))(.*)\]")
_Files = frozenset[tuple[str, int, int]]
_Row = Mapping[str, "bytes | np.ndarray"]


class ServedVersion:
    """A loaded version; its session is closed once the version is retired and no request uses it.

    Attributes:
        number: name of the version's directory, or "" if the name is not a number.
        info: content of export.json.
        definitions: maps signature names to SignatureDefs. Streaming signatures are left out: their state is
            for programs that load the export.
        stream_start: initial state of a stream (see stream_client.py); None if the model does not stream.
        load_seconds: time taken by loading and the first batch.
    """

    def __init__(self, version_dir: str):
        """Loads the version and warms it up.

        Raises:
            errors.UserError: the version is damaged, or cannot recognise audio.
        """
        started = time.monotonic()
        name = os.path.basename(os.path.normpath(version_dir))
        self.version_dir, self.number = version_dir, name if name.isdecimal() else ""
        self._loaded = recogniser.load_version(version_dir)
        self.info, definitions = self._loaded.info, self._loaded.definitions
        names = [name for name in definitions if not name.startswith("stream")]
        self.definitions = {name: definitions[name] for name in names}
        self._num_users, self._is_retired = 0, False
        try:
            names = [name for name in definitions if name[0] != "_"]
            self._recognisers = {name: self._loaded.find(name) for name in names}
            streams = stream_client.find(self._loaded, "stream")
            self.stream_start = streams and streams.start_one()
            self._warm_up()
        except errors.UserError:
            self._loaded.session.close()
            raise
        self.load_seconds = time.monotonic() - started

    @property
    def step_seconds(self) -> float:
        """Seconds of new audio after which an unfinished segment is recognised again."""
        return self.info.chunk_seconds or live.STEP_SECONDS

    @property
    def min_confidence(self) -> float:
        """Minimum confidence that a character needs to settle before its segment has ended."""
        return live.find_min_confidence(self.info.acoustic.decode)

    @property
    def sample_rate(self) -> int:
        """Sample rate of the waveforms in Hz."""
        return self.info.frontend.sample_rate

    def make_probe(self) -> _Row:
        """Returns a second of noise as a row of inputs for the signature `waveform`."""
        noise = np.random.default_rng(0).normal(0, 0.1, self.sample_rate).astype(np.float32)
        return {"waveform": noise, "num_samples": np.int32(noise.size)}

    def run(self, signature: str, hotwords: Sequence[str], rows: Sequence[_Row]) -> list[dict]:
        """Recognises rows that share the same hotwords; each row has the inputs without the batch axis.

        Returns:
            The outputs for each row, named as in recogniser.Recogniser.run.

        Raises:
            errors.UserError: the graph rejected the inputs.
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
        self._num_users += 1
        try:
            yield self
        finally:
            self._num_users -= 1
            self._close_if_unused()

    def retire(self) -> None:
        """Closes the session as soon as no request uses it any more."""
        self._is_retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_retired and not self._num_users:
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
                f"{self.version_dir} cannot recognise a second of noise ({_describe(error)}); "
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


class Versions:
    """Keeps the newest version of an export directory loaded.

    Attributes:
        current: the newest version that could be loaded; if all versions are removed, the last one served.
    """

    def __init__(self, saved_model: str, counters: metrics.Metrics):
        """Loads the newest version in an export directory, or a single version, which is never replaced.

        Raises:
            errors.UserError: there is no version, or the version is damaged.
        """
        self._path, self._metrics, self._loader = saved_model, counters, futures.ThreadPoolExecutor(1)
        version_dir = recogniser.find_version(saved_model)
        self._is_fixed = version_dir == saved_model
        self._seen: dict[str, _Files] = {}
        self._failed: dict[str, _Files] = {}
        self.current = ServedVersion(version_dir)
        counters.version.set(float(self.current.number or 0))

    async def watch(self) -> None:
        """Looks for newer versions until the task is cancelled."""
        while not self._is_fixed:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.refresh()
            except OSError as error:  # the disk may become available again
                message = "%s: cannot list the versions (%s); still serving version %s"
                values = self._path, error.strerror, self.current.number
                logging.log_every_n_seconds(logging.ERROR, message, _LOG_SECONDS, *values)

    async def refresh(self) -> None:
        """Loads the newest version that can be loaded, unless it is the current one."""
        for version_dir in self._list_newer():
            files = _list_files(version_dir)
            previous, self._seen[version_dir] = self._seen.get(version_dir), files
            if files != previous or files == self._failed.get(version_dir):
                continue
            if await self._load(version_dir):
                return
            self._failed[version_dir] = files

    def _list_newer(self) -> list[str]:
        """Returns the versions newer than the current one, or all if that one was removed; newest first."""
        numbers = reversed(recogniser.list_versions(self._path))
        version_dirs = [os.path.join(self._path, str(number)) for number in numbers]
        current = self.current.version_dir
        return version_dirs[: version_dirs.index(current)] if current in version_dirs else version_dirs

    async def _load(self, version_dir: str) -> bool:
        loop = asyncio.get_running_loop()
        try:
            loaded = await loop.run_in_executor(self._loader, ServedVersion, version_dir)
        except Exception as error:
            logging.error("%s; still serving version %s", error, self.current.number)
            return False
        old, self.current = self.current, loaded
        old.retire()
        self._metrics.version.set(float(loaded.number or 0))
        logging.info("now serving version %s, loaded in %.1f s", loaded.number, loaded.load_seconds)
        return True


def _list_files(version_dir: str) -> _Files:
    """Returns the path, size and modification time of each file; skips files that disappear meanwhile."""
    files = set()
    for parent, _, names in os.walk(version_dir):
        for path in (os.path.join(parent, name) for name in names):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                files.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(files)
