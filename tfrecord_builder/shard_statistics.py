"""What is counted while a shard is written, and how the counts of all shards become a DatasetInfo."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from collections.abc import Sequence

import numpy as np

from tfrecord_builder import dataset_info, items, plan, schema


@dataclasses.dataclass
class ShardStatistics:
    """What a shard holds. The JSON file of it beside the shard is what marks the shard as finished.

    Attributes:
      file, split, num_bytes, sha256: of the shard's file.
      frame_lengths, token_lengths: length (as a string: JSON has no other keys) to number of utterances.
      rejected: (utterance_id, split, reason) of what was left out.
      feature_sum, feature_square_sum: per bin over num_frames frames, float64 [num_bins]; empty for text.
    """

    file: str
    split: str
    num_bytes: int = 0
    sha256: str = ""
    fingerprint: str = ""
    num_records: int = 0
    speakers: list = dataclasses.field(default_factory=list)
    duration_ms: int = 0
    num_tokens: int = 0
    num_characters: int = 0
    unknown_tokens: int = 0
    unknown_characters: int = 0
    frame_lengths: dict = dataclasses.field(default_factory=dict)
    token_lengths: dict = dataclasses.field(default_factory=dict)
    rejected: list = dataclasses.field(default_factory=list)
    num_frames: int = 0
    feature_sum: list = dataclasses.field(default_factory=list)
    feature_square_sum: list = dataclasses.field(default_factory=list)

    def count(self, record: schema.Record, item: items.Item, settings: plan.Settings, level) -> None:
        """Counts one record, but not its speaker."""
        saved = settings.vocabularies
        self.num_records += 1
        self.duration_ms += record.duration_ms
        self.num_tokens += len(record.token_ids)
        self.num_characters += len(record.character_ids)
        self.unknown_tokens += saved.tokens.count_unknown(item.labels.tokens)
        self.unknown_characters += saved.characters.count_unknown(item.labels.characters)
        _add_length(self.token_lengths, len(record.token_ids))
        if record.fbank is not None:
            _add_length(self.frame_lengths, len(record.fbank))
            self._count_features(record.fbank.astype(np.float64))

    def save(self, path: str) -> None:
        """Writes path whole or not at all."""
        temporary = f"{path}.{os.getpid()}.incomplete"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file)
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: str) -> ShardStatistics:
        """Reads what save wrote."""
        with open(path, encoding="utf-8") as file:
            return cls(**json.load(file))

    def _count_features(self, fbank: np.ndarray) -> None:
        self.num_frames += len(fbank)
        self.feature_sum = _add(self.feature_sum, fbank.sum(axis=0))
        self.feature_square_sum = _add(self.feature_square_sum, np.square(fbank).sum(axis=0))


def feature_moments(shards: Sequence[ShardStatistics]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Gives mean and standard deviation per bin over all frames; two empty tuples if there are none.

    Sums of float64 in the order of the shards, so that no worker count changes a bit.
    """
    num_frames = sum(shard.num_frames for shard in shards)
    if not num_frames:
        return (), ()
    total: list[float] = []
    square_total: list[float] = []
    for shard in shards:
        if shard.num_frames:
            total = _add(total, np.array(shard.feature_sum))
            square_total = _add(square_total, np.array(shard.feature_square_sum))
    mean = np.array(total) / num_frames
    variance = np.array(square_total) / num_frames - np.square(mean)
    return tuple(mean.tolist()), tuple(np.sqrt(np.maximum(variance, 0.0)).tolist())


def split_infos(shards: Sequence[ShardStatistics]) -> dict[str, dataset_info.SplitInfo]:
    """Adds up the shards of each split."""
    by_split: dict[str, list[ShardStatistics]] = {}
    for shard in shards:
        by_split.setdefault(shard.split, []).append(shard)
    return {split: _split_info(found) for split, found in by_split.items()}


def _split_info(shards: Sequence[ShardStatistics]) -> dataset_info.SplitInfo:
    return dataset_info.SplitInfo(
        num_utterances=sum(shard.num_records for shard in shards),
        num_speakers=len({speaker for shard in shards for speaker in shard.speakers}),
        seconds=sum(shard.duration_ms for shard in shards) / 1000,
        num_tokens=sum(shard.num_tokens for shard in shards),
        num_characters=sum(shard.num_characters for shard in shards),
        unknown_tokens=sum(shard.unknown_tokens for shard in shards),
        unknown_characters=sum(shard.unknown_characters for shard in shards),
        frame_lengths=_add_histograms([shard.frame_lengths for shard in shards]),
        token_lengths=_add_histograms([shard.token_lengths for shard in shards]),
        shards=tuple(
            dataset_info.ShardInfo(shard.file, shard.num_records, shard.num_bytes, shard.sha256)
            for shard in shards
        ),
    )


def _add_histograms(histograms: Sequence[dict[str, int]]) -> dict[int, int]:
    total: collections.Counter = collections.Counter()
    for histogram in histograms:
        total.update({int(length): count for length, count in histogram.items()})
    return dict(sorted(total.items()))


def _add_length(histogram: dict[str, int], length: int) -> None:
    histogram[str(length)] = histogram.get(str(length), 0) + 1


def _add(previous: list[float], added: np.ndarray) -> list[float]:
    return (np.array(previous) + added if previous else added).tolist()
