"""Some records made again from their recordings, and compared with what is stored."""

from __future__ import annotations

import dataclasses
import math
import os
import random
from collections.abc import Callable, Collection, Iterator
from typing import Optional

import numpy as np

from tfrecord_builder import dataset_info, errors, files, schema
from tfrecord_builder.building import checks, half_floats, items, shard_writer, sharding
from tfrecord_builder.records import record_checks, record_file
from tfrecord_builder.verification import problems

# Another processor sums in another order, and one step of float16 (1/64 at 16) may lie between the results.
_LOG_TOLERANCE = 1e-3


class Reextraction:
    """Re-extracts records of one data directory."""

    def __init__(
        self, data_dir: str, info: dataset_info.DatasetInfo, saved, advance: Callable[[int], object]
    ):
        """Takes its vocabularies.Vocabularies, and what is called with 1 after every record."""
        self._data_dir = data_dir
        self._info = info
        self._advance = advance
        self._expected = record_checks.Expected(
            saved.tokens, saved.characters, info.frontend, info.fbank_dtype
        )
        self._settings = sharding.Settings(saved, info.frontend, info.fbank_dtype, math.inf)

    def problems(self, num_samples: int, seed: int) -> Iterator[problems.Problem]:
        """Yields how num_samples records, drawn by the seed, differ from what their audio gives now."""
        shards = [each for _, split in sorted(self._info.splits.items()) for each in split.shards]
        if not any(files.exists(items.path_of(self._path(each))) for each in shards):
            what = "no shard has its items beside it (an earlier version wrote none), expected <shard>.jsonl"
            again = "no record can be made again; build the data again"
            yield problems.Problem(problems.SAMPLE, self._data_dir, f"{what}: {again}")
            return
        total = sum(each.num_records for each in shards)
        chosen = sorted(random.Random(seed).sample(range(total), min(num_samples, total)))
        begin = 0
        for each in shards:
            numbers = {number - begin for number in chosen if 0 <= number - begin < each.num_records}
            begin += each.num_records
            path = self._path(each)
            if numbers and files.exists(path):
                yield from self._check_shard(path, numbers)

    def _path(self, shard: dataset_info.ShardInfo) -> str:
        return os.path.join(self._data_dir, shard_writer.file)

    def _check_shard(self, path: str, numbers: Collection[int]) -> Iterator[problems.Problem]:
        """Yields what _check_records does, and what keeps it from going on."""
        try:
            yield from self._check_records(path, numbers)
        except errors.UserError as error:
            where = items.path_of(path)
            yield problems.Problem(problems.SAMPLE, where, f"{error}".removeprefix(f"{where}: "))
        except OSError as error:
            what = f"it cannot be read ({error.strerror or error})"
            lost = "so no record of its shard can be made again"
            yield problems.Problem(problems.SAMPLE, error.filename or path, f"{what}, {lost}")

    def _check_records(self, path: str, numbers: Collection[int]) -> Iterator[problems.Problem]:
        listed, last = items.read(path), max(numbers)
        with files.open_binary(path) as file:
            for raw in record_file.RecordFile(file).records():
                if raw.number in numbers and not raw.problem:
                    what, name = self._compare(raw.data, listed)
                    where = problems.describe(raw.number, raw.offset, name)
                    if what:
                        yield problems.Problem(problems.SAMPLE, path, f"{where}: {what}")
                    self._advance(1)
                if raw.number == last:
                    return

    def _compare(self, serialized: bytes, listed: Iterator[items.Item]) -> tuple[str, str]:
        """Gives what is different, empty if nothing, and the id of the utterance."""
        try:
            stored = record_checks.read_record(serialized, self._expected)
        except record_checks.Damaged as problem:
            return str(problem), ""
        name = stored.utterance_id
        item = next((item for item in listed if item.utterance.utterance_id == name), None)
        if item is None:
            return "its shard's items do not name it, expected them in the order of the records", name
        return self._make_and_compare(stored, item), name

    def _make_and_compare(self, stored: schema.Record, item: items.Item) -> str:
        audio = item.utterance.audio
        change = _change(item) if audio else None
        if change and not change.startswith("time"):
            return f"its recording {audio} {change}"
        try:
            as_it_is = dataclasses.replace(item, stamp=items.stamp(audio))
            made, _ = shard_writer.make_record(as_it_is, self._settings)
        except checks.Rejected as reason:
            return f"its recording {audio} cannot be used any more ({reason})"
        difference = _difference(stored, made)
        if difference and change:
            return f"its recording {audio} has changed since the build: {difference}"
        source = f"recording {audio}" if audio else "line in the items"
        return difference and f"its {source} gives another record: {difference}"


def _change(item: items.Item) -> Optional[str]:
    """Says how a recording is another than was built from; "time" alone may be a copy of it."""
    audio, stamp = item.utterance.audio, item.stamp
    if not files.exists(audio):
        return "is gone"
    num_bytes, changed = files.size_and_time(audio)
    if stamp and num_bytes != stamp[0]:
        return f"has changed since the build: it has {num_bytes} bytes, expected {stamp[0]}"
    return "time" if stamp and changed != stamp[1] else None


def _difference(stored: schema.Record, made: schema.Record) -> str:
    for name in ("speaker", "transcript", "pronunciation", "token_ids", "character_ids", "duration_ms"):
        found, wanted = getattr(stored, name), getattr(made, name)
        if found != wanted:
            return f"{name} is {found!r}, expected {wanted!r}"
    return "" if stored.fbank is None else _feature_difference(stored.fbank, made.fbank)


def _feature_difference(stored: np.ndarray, made: np.ndarray) -> str:
    if stored.shape != made.shape:
        return f"features are {list(stored.shape)}, expected {list(made.shape)}"
    found, wanted = half_floats.to_float32(stored), half_floats.to_float32(made)
    steps = np.spacing(np.maximum(np.abs(stored), np.abs(made))).astype(np.float32)
    over = np.abs(found - wanted) - steps - _LOG_TOLERANCE
    frame, place = np.unravel_index(np.argmax(over), over.shape)
    if over[frame, place] <= 0:
        return ""
    return f"bin {place} of frame {frame} is {found[frame, place]:g}, expected {wanted[frame, place]:g}"
