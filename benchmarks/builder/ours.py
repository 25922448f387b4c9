"""Our builder as the benchmark calls it; no other module of the benchmark uses its functions."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import glob
import multiprocessing
import os
import pathlib
import tempfile
import threading
from collections.abc import Iterable, Sequence

from benchmarks.builder import corpus
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import catalog, shard_statistics, shard_writer, sharding
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import manifest, schema
from tfrecord_builder.labels import labelling, vocabularies

_NUM_SHARDS = 16
_POLL_SECONDS = 0.05


def build_here(recordings: Sequence[corpus.SpokenFile], directory: str) -> str:
    """Builds one shard in this process, the whole loop of a worker: read, decode, log-mel, serialise, write.

    Returns:
      The path of the TFRecord file.
    """
    directory = os.path.join(directory, os.path.splitext(recordings[0].path)[1][1:])
    os.makedirs(directory, exist_ok=True)
    only, settings = _plan(tuple(recordings), directory)
    path = os.path.join(directory, only.file)
    for earlier in (path, f"{path}.json"):  # a real build finds no file; replacing one may flush it
        with contextlib.suppress(FileNotFoundError):
            os.remove(earlier)
    shard_writer.RecordWriter(directory, settings).write(only, lambda done, rejected: None)
    return path


def build_with_workers(
    recordings: Sequence[corpus.SpokenFile], num_utterances: int, directory: str, num_workers: int
) -> int:
    """Builds num_utterances, repeating the recordings, in worker processes.

    Returns:
      The peak resident memory of the largest worker, in bytes.
    """
    found = (_make_item(index, recordings[index % len(recordings)]) for index in range(num_utterances))
    shards = _write_plan(found, _NUM_SHARDS, directory)
    with _PeakOfChildren() as peak:
        written = _write(shards, _make_settings(recordings), directory, num_workers)
    assert sum(each.num_records for each in written) == num_utterances
    return peak.num_bytes


def _write(
    shards: Sequence[sharding.PlannedShard],
    settings: sharding.RecordSettings,
    directory: str,
    num_workers: int,
) -> list[shard_statistics.ShardStatistics]:
    """Writes the shards; if there is one worker, runs it in a separate process."""
    arguments = (shards, shard_writer.RecordWriter(directory, settings), num_workers)
    if num_workers > 1:
        return _write_here(*arguments)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_write_here, *arguments).result()


def _write_here(
    shards: Sequence[sharding.PlannedShard], writer: shard_writer.RecordWriter, num_workers: int
) -> list[shard_statistics.ShardStatistics]:
    with dispatch.connect(dispatch.LOCAL, num_workers) as run:
        return run(shards, writer, "building")


def read_features(path: str) -> list:
    """Returns the features of each record of a file that one of the loops wrote, float32 [num_frames, 80]."""
    records = schema.parse_records(schema.read_shard(path), num_bins=80)
    return [record["fbank"] for record in sorted(records, key=lambda record: record["utterance_id"])]


@functools.cache
def _plan(
    recordings: tuple[corpus.SpokenFile, ...], directory: str
) -> tuple[sharding.PlannedShard, sharding.RecordSettings]:
    """Labels and plans before the timing starts, as a build does before its workers start."""
    found = (_make_item(index, recording) for index, recording in enumerate(recordings))
    (only,) = _write_plan(found, 1, directory)
    return only, _make_settings(recordings)


def _write_plan(
    found: Iterable[sharding.LabelledUtterance], num_shards: int, directory: str
) -> list[sharding.PlannedShard]:
    lines = sorted(map(sharding.to_labelled_line, found))
    with tempfile.TemporaryDirectory() as scratch, catalog.open_new(scratch) as listed:
        labelled = pathlib.Path(scratch, "labelled")
        labelled.write_bytes(b"".join(lines))
        return sharding.write([str(labelled)], {"train": len(lines)}, num_shards, directory, listed)


def _make_item(index: int, recording: corpus.SpokenFile) -> sharding.LabelledUtterance:
    text = "".join(recording.tokens)
    utterance = manifest.Utterance(f"u{index:06d}", recording.path, "", text, "", "train")
    return sharding.LabelledUtterance(
        utterance, _make_labels(recording), sharding.file_signature(recording.path)
    )


def _make_labels(recording: corpus.SpokenFile) -> labelling.Labels:
    return labelling.Labels("".join(recording.tokens), recording.tokens, recording.tokens)


def _make_settings(recordings: Sequence[corpus.SpokenFile]) -> sharding.RecordSettings:
    collector = vocabularies.Collector(labelling.LabelConfig())
    for recording in recordings:
        collector.add(_make_labels(recording), "train")
    saved = vocabularies.make(collector, vocabularies.VocabularyConfig())
    return sharding.RecordSettings(saved, frontend.FrontendConfig(), "float16", 30.0)


class _PeakOfChildren:
    """Watches the VmHWM of this process's children, which only rises, until the block ends."""

    def __enter__(self) -> _PeakOfChildren:
        self.num_bytes = 0
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._has_ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._has_ended.wait(_POLL_SECONDS):
            for path in glob.glob("/proc/self/task/*/children"):
                with open(path) as file:
                    self.num_bytes = max([self.num_bytes, *map(_peak_bytes, file.read().split())])


def _peak_bytes(process_id: str) -> int:
    try:
        with open(f"/proc/{process_id}/status") as file:
            return sum(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    except (FileNotFoundError, ProcessLookupError):  # the process has ended
        return 0
