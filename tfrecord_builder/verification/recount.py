"""A split counted again from its records, to compare with what dataset_info.json says of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tfrecord_builder import dataset_info, schema
from tfrecord_builder.building import shard_statistics, tallies
from tfrecord_builder.records import record_checks

_MOMENT_TOLERANCE = 1e-5  # of mean and deviation, both of a few units


class Recount:
    """What the records of one split add up to."""

    def __init__(self, expected: record_checks.Expected):
        self._expected = expected
        self._counted = shard_statistics.ShardStatistics(file="", split="")
        self._speakers: set[str] = set()

    def count(self, record: schema.Record) -> None:
        """Counts one record that is right."""
        counted, tokens = self._counted, record.pronunciation.split(" ")
        counted.num_records += 1
        counted.duration_ms += record.duration_ms
        counted.num_tokens += len(record.token_ids)
        counted.num_characters += len(record.character_ids)
        counted.unknown_tokens += self._expected.tokens.count_unknown(tokens)
        counted.unknown_characters += record.character_ids.count(self._expected.characters.unknown_id)
        tallies.count(counted.token_lengths, len(record.token_ids))
        self._speakers.add(record.speaker)
        if record.fbank is not None:
            tallies.count(counted.frame_lengths, len(record.fbank))
            counted.count_features(record.fbank)

    def problems(self, info: dataset_info.SplitInfo) -> Iterator[str]:
        """Yields where a split's figures are not those of its records."""
        counted = self._counted
        found = {
            "num_utterances": counted.num_records,
            "num_speakers": self._num_speakers(info.num_speakers),
            "seconds": counted.duration_ms / 1000,
            "num_tokens": counted.num_tokens,
            "num_characters": counted.num_characters,
            "unknown_tokens": counted.unknown_tokens,
            "unknown_characters": counted.unknown_characters,
        }
        for name, value in found.items():
            if getattr(info, name) != value:
                yield f"{name} is {getattr(info, name)}, expected {value} by its records"
        for name in ("frame_lengths", "token_lengths"):
            yield from _histogram_problems(name, getattr(info, name), getattr(counted, name))

    def _num_speakers(self, expected: int) -> int:
        """Counts the known speakers; data of earlier versions count the unknown ones too."""
        known = sum(map(dataset_info.is_known_speaker, self._speakers))
        return expected if expected == len(self._speakers) else known

    def moment_problems(self, info: dataset_info.DatasetInfo) -> Iterator[str]:
        """Yields where mean and deviation of the features are not those of this split."""
        found = shard_statistics.feature_moments([self._counted])
        for name, moment in zip(("feature_mean", "feature_stddev"), found):
            yield from _moment_problems(name, getattr(info, name), moment)


def _histogram_problems(name: str, said: dict[int, int], found: dict[str, int]) -> Iterator[str]:
    for length in sorted({*said, *map(int, found)}):
        if said.get(length, 0) != found.get(str(length), 0):
            yield (
                f"{name} says {said.get(length, 0)} of length {length}, "
                f"expected {found.get(str(length), 0)} by its records"
            )
            return


def _moment_problems(name: str, said: tuple[float, ...], found: tuple[float, ...]) -> Iterator[str]:
    if len(said) != len(found):
        yield f"{name} has {len(said)} numbers, expected {len(found)}"
        return
    off = np.flatnonzero(~np.isclose(said, found, rtol=_MOMENT_TOLERANCE, atol=_MOMENT_TOLERANCE))
    if len(off):
        place = int(off[0])
        yield f"{name} of bin {place} is {said[place]:g}, expected {found[place]:g} by the records of train"
