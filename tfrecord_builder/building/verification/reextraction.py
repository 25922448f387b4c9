"""Rebuilds sampled records from their audio, and compares them with the stored records."""

from __future__ import annotations

import dataclasses
import math
import os
import random
from collections.abc import Callable, Collection, Iterator

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.building import shard_writer, sharding
from tfrecord_builder.building.verification import data_directory, stored_records
from tfrecord_builder.data import dataset_info, recordings, schema
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.storage import files

# CPUs add numbers in different orders, so features may differ by this value plus one step of their dtype
# (1/64 for a float16 value of 16).
_LOG_TOLERANCE = 1e-3
_COMPARED = (
    *("speaker", "transcript", "pronunciation", "written", "token_ids", "character_ids", "mark_ids"),
    "duration_ms",
)


class Reextraction:
    """A check that rebuilds sampled records from their audio; calls advance(1) after each record."""

    def __init__(
        self,
        data_dir: str,
        info: dataset_info.DatasetInfo,
        saved: vocabularies.Vocabularies,
        advance: Callable[[int], object],
    ):
        self._data_dir = data_dir
        self._info = info
        self._advance = advance
        self._expected = stored_records.RecordSpec(
            saved.tokens, saved.characters, info.frontend, info.fbank_dtype
        )
        self._settings = sharding.RecordSettings(saved, info.frontend, info.fbank_dtype, math.inf)

    def problems(self, num_samples: int, seed: int) -> Iterator[data_directory.Problem]:
        """Yields the differences between sampled records and new records made from the same audio."""
        if self._info.frontend and self._info.frontend.encoder:
            text = "--sample: records contain encoder outputs instead of features; sample the original data"
            yield data_directory.Problem(data_directory.SAMPLE, self._data_dir, text)
            return
        total = sum(shard.num_records for shard in self._info.shards)
        sampled = random.Random(seed).sample(range(total), min(num_samples, total))
        begin = 0
        for shard in self._info.shards:
            numbers = {number - begin for number in sampled if 0 <= number - begin < shard.num_records}
            begin += shard.num_records
            path = os.path.join(self._data_dir, shard.file)
            if numbers and files.exists(path):
                yield from self._check_shard(path, numbers)

    def _check_shard(self, path: str, numbers: Collection[int]) -> Iterator[data_directory.Problem]:
        items_path = recordings.path_of(path)
        try:
            for text in self._differences(path, numbers):
                yield data_directory.Problem(data_directory.SAMPLE, path, text)
        except errors.UserError as error:
            text = str(error).removeprefix(f"{items_path}: ")
            yield data_directory.Problem(data_directory.SAMPLE, items_path, text)
        except OSError as error:
            text = f"file cannot be read ({error.strerror or error}), so its shard was not sampled"
            yield data_directory.Problem(data_directory.SAMPLE, error.filename or path, text)

    def _differences(self, path: str, numbers: Collection[int]) -> Iterator[str]:
        shard_items = sharding.read_items(path)
        with files.open_binary(path) as file:
            for raw in stored_records.RecordFile(file).records():
                if raw.number in numbers and not raw.problem:
                    difference = self._compare(raw.data, shard_items)
                    if difference:
                        yield f"{data_directory.locate(raw)}: {difference}"
                    self._advance(1)
                if raw.number == max(numbers):
                    return

    def _compare(self, serialized: bytes, shard_items: Iterator[sharding.LabelledUtterance]) -> str:
        """Returns the difference between a stored record and one made from its audio, or an empty string."""
        try:
            stored = stored_records.read_record(serialized, self._expected)
        except stored_records.DamagedRecordError as problem:
            return str(problem)
        name = stored.utterance_id
        item = next((item for item in shard_items if item.utterance.utterance_id == name), None)
        if item is None:
            return "utterance is missing from the shard's .jsonl file, or that file is in a different order"
        return _compare_with_audio(stored, item, self._settings)


def _compare_with_audio(
    stored: schema.Record, item: sharding.LabelledUtterance, settings: sharding.RecordSettings
) -> str:
    audio = item.utterance.audio
    signature = sharding.file_signature(audio)
    if audio and signature is None:
        return f"audio {audio} is missing"
    try:
        remade, _ = shard_writer.make_record(dataclasses.replace(item, signature=signature), settings)
    except shard_writer.RejectedRecording as reason:
        return f"audio {audio} can no longer be used ({reason})"
    difference = _difference(stored, remade)
    if difference and signature != item.signature:
        return f"audio {audio} has changed since the build: {difference}"
    source = f"audio {audio}" if audio else "line in the .jsonl file"
    return difference and f"its {source} now produces a different record: {difference}"


def _difference(stored: schema.Record, remade: schema.Record) -> str:
    for name in _COMPARED:
        value, expected = getattr(stored, name), getattr(remade, name)
        if value != expected:
            return f"{name} is {value!r}, expected {expected!r}"
    return "" if stored.fbank is None else _feature_difference(stored.fbank, remade.fbank)


def _feature_difference(stored: np.ndarray, remade: np.ndarray) -> str:
    if stored.shape != remade.shape:
        return f"feature shape is {list(stored.shape)}, expected {list(remade.shape)}"
    values, expected = stored.astype(np.float32), remade.astype(np.float32)
    steps = np.spacing(np.maximum(np.abs(stored), np.abs(remade))).astype(np.float32)
    excess = np.abs(values - expected) - steps - _LOG_TOLERANCE
    frame, place = np.unravel_index(np.argmax(excess), excess.shape)
    if excess[frame, place] <= 0:
        return ""
    return f"bin {place} of frame {frame} is {values[frame, place]:g}, expected {expected[frame, place]:g}"
