"""What is counted while a shard is written, and how the counts of all shards become a DatasetInfo."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence

import numpy as np

from tfrecord_builder import dataset_info, files, schema
from tfrecord_builder.building import half_floats, items, sharding, tallies
from tfrecord_builder.building import loudness as levels

DURATION_BIN_MS = 100
# The sums of an utterance are rounded to this, so that float64 adds them exactly, whatever the order, up to
# 2**37: a thousand hours in one bin.
_SUM_STEPS = 2.0**16


@dataclasses.dataclass
class ShardStatistics:
    """What a shard holds. The JSON file of it beside the shard is what marks the shard as finished.

    Its size does not grow with the number of utterances. Statistics of shards add up to those of a split.

    Attributes:
      file, split, num_bytes, sha256: of the shard's file.
      items_sha256: of the file of its items.
      fingerprint: of what it was made of, see plan.shard_fingerprint.
      frame_lengths, token_lengths: length (as a string: JSON has no other keys) to number of utterances.
      rejected: [utterance_id, split, reason, audio] of what was left out.
      feature_sum, feature_square_sum: per bin over num_frames frames, float64 [num_bins]; empty for text.
      durations: tenths of a second, rounded down, to number of utterances.
      token_counts, character_counts: how often each stands in the labels, in the vocabulary or not.
      rms_levels, peak_levels: dBFS, rounded down, to number of utterances.
      clipped_utterances, clipped_samples: see levels.Level.
      longest, loudest, quietest: [value, utterance_id, audio, start_seconds, seconds], see tallies; the value
        is ms, RMS in tenths of dBFS, and the same negative. Augmented copies are not among them.
    """

    file: str
    split: str
    num_bytes: int = 0
    sha256: str = ""
    items_sha256: str = ""
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
    durations: dict = dataclasses.field(default_factory=dict)
    token_counts: dict = dataclasses.field(default_factory=dict)
    character_counts: dict = dataclasses.field(default_factory=dict)
    rms_levels: dict = dataclasses.field(default_factory=dict)
    peak_levels: dict = dataclasses.field(default_factory=dict)
    clipped_utterances: int = 0
    clipped_samples: int = 0
    longest: list = dataclasses.field(default_factory=list)
    loudest: list = dataclasses.field(default_factory=list)
    quietest: list = dataclasses.field(default_factory=list)

    def count(
        self,
        record: schema.Record,
        item: items.Item,
        settings: sharding.Settings,
        level: levels.Level | None = None,
    ) -> None:
        """Counts one record, but not its speaker; text alone has no level."""
        saved = settings.vocabularies
        self.num_records += 1
        self.duration_ms += record.duration_ms
        self.num_tokens += len(record.token_ids)
        self.num_characters += len(record.character_ids)
        self.unknown_tokens += saved.tokens.count_unknown(item.labels.tokens)
        self.unknown_characters += saved.characters.count_unknown(item.labels.characters)
        tallies.count(self.token_lengths, len(record.token_ids))
        tallies.count_all(self.token_counts, item.labels.tokens)
        tallies.count_all(self.character_counts, item.labels.characters)
        if record.fbank is not None:
            tallies.count(self.frame_lengths, len(record.fbank))
            tallies.count(self.durations, record.duration_ms // DURATION_BIN_MS)
            self.count_features(record.fbank)
            self._count_level(record, item, level)

    def count_features(self, fbank: np.ndarray) -> None:
        """Counts the frames of an utterance, float16 or float32 [num_frames, num_bins]."""
        total, square_total = _sum_features(fbank)
        self.num_frames += len(fbank)
        self.feature_sum = _add(self.feature_sum, total)
        self.feature_square_sum = _add(self.feature_square_sum, square_total)

    def add(self, other: ShardStatistics) -> None:
        """Adds what another shard holds; its file, hash, rejected and unknown speakers are left out."""
        for name, value in vars(other).items():
            if isinstance(value, dict):
                tallies.add(getattr(self, name), value)
            elif isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.speakers = sorted(filter(dataset_info.is_known_speaker, {*self.speakers, *other.speakers}))
        self.feature_sum = _add(self.feature_sum, other.feature_sum)
        self.feature_square_sum = _add(self.feature_square_sum, other.feature_square_sum)
        for name in ("longest", "loudest", "quietest"):
            for entry in getattr(other, name):
                tallies.keep(getattr(self, name), entry)

    def save(self, path: str) -> None:
        """Writes path whole or not at all."""
        with files.writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file)

    @classmethod
    def load(cls, path: str) -> ShardStatistics:
        """Reads what save wrote."""
        with files.open_binary(path) as file:
            return cls(**json.load(file))

    def _count_level(self, record: schema.Record, item: items.Item, level: levels.Level) -> None:
        tallies.count(self.rms_levels, math.floor(level.rms_dbfs))
        tallies.count(self.peak_levels, math.floor(level.peak_dbfs))
        self.clipped_utterances += level.clipped_samples > 0
        self.clipped_samples += level.clipped_samples
        if item.variant:
            return  # else the lists would name a few recordings over and over
        utterance, loudness = item.utterance, round(10 * level.rms_dbfs)
        where = [utterance.utterance_id, utterance.audio, utterance.start_seconds, utterance.seconds]
        tallies.keep(self.longest, [record.duration_ms, *where])
        tallies.keep(self.loudest, [loudness, *where])
        tallies.keep(self.quietest, [-loudness, *where])


def _sum_features(fbank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums features and their squares over the frames, rounded to a step that makes adding them up exact."""
    values = half_floats.to_float32(fbank).astype(np.float64)
    sums = np.einsum("ij->j", values), np.einsum("ij,ij->j", values, values)
    return tuple(np.rint(each * _SUM_STEPS) / _SUM_STEPS for each in sums)


def feature_moments(shards: Iterable[ShardStatistics]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Gives mean and standard deviation per bin over all frames; two empty tuples if there are none."""
    total = _total(shards)
    if not total.num_frames:
        return (), ()
    mean = np.array(total.feature_sum) / total.num_frames
    variance = np.array(total.feature_square_sum) / total.num_frames - np.square(mean)
    return tuple(mean.tolist()), tuple(np.sqrt(np.maximum(variance, 0.0)).tolist())


def split_infos(shards: Iterable[ShardStatistics]) -> dict[str, dataset_info.SplitInfo]:
    """Adds up the shards of each split."""
    by_split: dict[str, list[ShardStatistics]] = {}
    for shard in shards:
        by_split.setdefault(shard.split, []).append(shard)
    return {split: _split_info(found) for split, found in by_split.items()}


def _split_info(shards: Sequence[ShardStatistics]) -> dataset_info.SplitInfo:
    total = _total(shards)
    return dataset_info.SplitInfo(
        num_utterances=total.num_records,
        num_speakers=len(total.speakers),
        seconds=total.duration_ms / 1000,
        num_tokens=total.num_tokens,
        num_characters=total.num_characters,
        unknown_tokens=total.unknown_tokens,
        unknown_characters=total.unknown_characters,
        frame_lengths=_by_length(total.frame_lengths),
        token_lengths=_by_length(total.token_lengths),
        shards=tuple(
            dataset_info.ShardInfo(
                shard.file, shard.num_records, shard.num_bytes, shard.sha256, shard.items_sha256
            )
            for shard in shards
        ),
    )


def _total(shards: Iterable[ShardStatistics]) -> ShardStatistics:
    total = ShardStatistics(file="", split="")
    for shard in shards:
        total.add(shard)
    return total


def _by_length(histogram: dict[str, int]) -> dict[int, int]:
    return {int(length): histogram[length] for length in sorted(histogram, key=int)}


def _add(previous: list[float], added: Sequence[float]) -> list[float]:
    if len(previous) and len(added):
        return np.add(previous, added).tolist()
    return list(previous) or np.asarray(added, np.float64).tolist()
