"""Statistics of a shard, collected while the shard is written, and their totals for each split.

The statistics include the loudness of the recordings: peak level, RMS level and clipping.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Optional

import numpy as np

from tfrecord_builder.building import resumable, sharding
from tfrecord_builder.data import dataset_info, schema
from tfrecord_builder.labels import vocabularies

DURATION_BIN_MS = 100
NUM_EXTREMES = 10
# Sums are rounded to multiples of 1 / _SUM_STEPS, so that float64 additions are exact in any order as long as
# totals stay below 2**37, which is enough for a thousand hours.
_SUM_STEPS = 2.0**16
# The float32 value of every float16. A table lookup is several times faster than numpy's conversion.
_FLOAT32 = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
FLOOR_DBFS = -120.0  # reported for digital silence, whose level is minus infinity
FULL_SCALE = 0.999  # -0.01 dBFS, because decoding and resampling make full-scale samples slightly smaller
CLIPPED_RUN = 3  # samples; a loud sine stays at full scale for one or two samples, a clipped sine for more
_BLOCK_SAMPLES = 256  # short blocks, so that float32 sums stay precise for long recordings


def _counter() -> collections.Counter[str]:
    return dataclasses.field(default_factory=collections.Counter)


def _list() -> list:
    return dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Loudness:
    """Levels and clipping of one recording."""

    peak_dbfs: float  # level of the largest sample; 0 is full scale, which float files may exceed
    rms_dbfs: float  # root mean square; -3.01 for a full-scale sine
    # Number of samples at full scale in runs of at least CLIPPED_RUN; a lower bound, because resampling
    # smooths some clipped peaks.
    clipped_samples: int


@dataclasses.dataclass
class ShardStatistics(resumable.ShardReceipt):
    """Statistics of the records in a shard. The JSON file with the statistics marks the shard as finished.

    The size of the statistics does not grow with the number of utterances, and shards can be added up in any
    order. The keys of histograms are strings, as JSON requires. Statistics that were loaded from JSON can be
    added to other statistics, but nothing can be added to them.
    """

    split: str = ""
    items_sha256: str = ""  # hash of the shard's .jsonl file
    speakers: list = _list()  # sorted ids
    duration_ms: int = 0
    num_tokens: int = 0
    num_characters: int = 0
    unknown_tokens: int = 0
    unknown_characters: int = 0
    num_marks: int = 0
    frame_lengths: dict = _counter()  # number of frames -> number of utterances
    # number of tokens -> number of utterances; in data for the punctuation model, number of characters
    token_lengths: dict = _counter()
    num_frames: int = 0
    feature_sum: list = _list()  # sum of each feature bin over all frames, [num_bins]; empty for text
    feature_square_sum: list = _list()
    durations: dict = _counter()  # duration in ms // DURATION_BIN_MS -> number of utterances
    token_counts: dict = _counter()  # token, known or unknown -> number of occurrences
    character_counts: dict = _counter()
    rms_levels: dict = _counter()  # level in dBFS, rounded down -> number of utterances
    peak_levels: dict = _counter()
    clipped_utterances: int = 0  # number of utterances that contain clipped samples (see Loudness)
    clipped_samples: int = 0
    # [value, utterance_id, audio, start_seconds, seconds] for the NUM_EXTREMES largest values, excluding
    # augmented copies. The values are durations in ms (longest), RMS levels in tenths of a dB (loudest), and
    # negated RMS levels (quietest).
    longest: list = _list()
    loudest: list = _list()
    quietest: list = _list()

    def count(
        self,
        record: schema.Record,
        item: sharding.LabelledUtterance,
        saved: vocabularies.Vocabularies,
        level: Optional[Loudness] = None,
    ) -> None:
        """Adds one record, except for its speaker; `level` is None for text."""
        self.num_records += 1
        self.duration_ms += record.duration_ms
        self.num_tokens += len(record.token_ids)
        self.num_characters += len(record.character_ids)
        self.num_marks += sum(map(bool, record.mark_ids))
        self.token_lengths[str(len(record.mark_ids or record.token_ids))] += 1
        self.unknown_tokens += saved.tokens.count_unknown(item.labels.tokens)
        self.unknown_characters += saved.characters.count_unknown(item.labels.characters)
        self.token_counts.update(item.labels.tokens)
        self.character_counts.update(item.labels.characters)
        if level:
            self.count_features(record.fbank)
            self.durations[str(record.duration_ms // DURATION_BIN_MS)] += 1
            self._count_level(record, item, level)

    def count_features(self, fbank: np.ndarray) -> None:
        """Adds the features of an utterance, float16 or float32 [num_frames, num_bins]."""
        self.frame_lengths[str(len(fbank))] += 1
        total, square_total = _sum_features(fbank)
        self.num_frames += len(fbank)
        self.feature_sum = _add(self.feature_sum, total)
        self.feature_square_sum = _add(self.feature_square_sum, square_total)

    def add(self, other: ShardStatistics) -> None:
        """Adds another shard's statistics, except its file name, hashes, rejections and unknown speakers."""
        for name, value in vars(other).items():
            if isinstance(value, dict):
                getattr(self, name).update(value)
            elif isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.speakers = sorted(filter(dataset_info.is_known_speaker, {*self.speakers, *other.speakers}))
        self.feature_sum = _add(self.feature_sum, other.feature_sum)
        self.feature_square_sum = _add(self.feature_square_sum, other.feature_square_sum)
        for name in ("longest", "loudest", "quietest"):
            setattr(self, name, _largest([*getattr(self, name), *getattr(other, name)]))

    def feature_moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns each bin's mean and standard deviation over all frames; empty if there are no frames."""
        if not self.num_frames:
            return (), ()
        mean = np.array(self.feature_sum) / self.num_frames
        variance = np.array(self.feature_square_sum) / self.num_frames - np.square(mean)
        return tuple(mean.tolist()), tuple(np.sqrt(np.maximum(variance, 0.0)).tolist())

    def _count_level(self, record: schema.Record, item: sharding.LabelledUtterance, level: Loudness) -> None:
        if item.variant and item.variant.is_wordless:
            return  # a copy without words says nothing about the recordings
        self.rms_levels[str(math.floor(level.rms_dbfs))] += 1
        self.peak_levels[str(math.floor(level.peak_dbfs))] += 1
        self.clipped_utterances += level.clipped_samples > 0
        self.clipped_samples += level.clipped_samples
        if item.variant:
            return  # otherwise copies of a few recordings would fill the lists
        utterance, rms = item.utterance, round(10 * level.rms_dbfs)
        where = [utterance.utterance_id, utterance.audio, utterance.start_seconds, utterance.seconds]
        for name, value in (("longest", record.duration_ms), ("loudest", rms), ("quietest", -rms)):
            setattr(self, name, _largest([*getattr(self, name), [value, *where]]))


def add_up(shards: Iterable[ShardStatistics]) -> dict[str, ShardStatistics]:
    """Returns the statistics of each split, summed over its shards."""
    totals: dict[str, ShardStatistics] = {}
    for shard in shards:
        totals.setdefault(shard.split, ShardStatistics(split=shard.split)).add(shard)
    return totals


def count_shared_speakers(totals: Mapping[str, ShardStatistics], split: str) -> dict[str, int]:
    """Returns how many speakers `split` shares with each other split; skips splits without known speakers."""
    speakers = set(totals[split].speakers)
    others = {name: total.speakers for name, total in totals.items() if name != split}
    return {name: len(speakers.intersection(ids)) for name, ids in others.items() if speakers and ids}


def make_split_info(
    total: ShardStatistics,
    shards: Iterable[ShardStatistics],
    num_sentences: int,
    shared_sentences: dict[str, int],
    shared_speakers: dict[str, int],
) -> dataset_info.SplitInfo:
    """Returns a split's entry in dataset_info.json, which contains the split's totals and shards."""
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
        num_marks=total.num_marks,
        shards=tuple(
            dataset_info.ShardInfo(
                shard.file, shard.num_records, shard.num_bytes, shard.sha256, shard.items_sha256
            )
            for shard in shards
        ),
        num_sentences=num_sentences,
        shared_sentences=shared_sentences,
        shared_speakers=shared_speakers,
    )


def measure_loudness(waveform: np.ndarray) -> Loudness:
    """Measures a waveform, float32 [num_samples] in [-1, 1]; it must not be empty or contain NaN or Inf."""
    peak = max(float(waveform.max()), -float(waveform.min()))
    mean_square = _sum_of_squares(waveform) / len(waveform)
    clipped = _count_clipped(waveform) if peak >= FULL_SCALE else 0
    return Loudness(_to_dbfs(peak * peak), _to_dbfs(mean_square), clipped)


def _to_dbfs(power: float) -> float:
    return max(FLOOR_DBFS, 10 * math.log10(power)) if power > 0 else FLOOR_DBFS


def _sum_of_squares(waveform: np.ndarray) -> float:
    # einsum is used instead of dot, because the last bits of BLAS results depend on the number of threads.
    whole = len(waveform) // _BLOCK_SAMPLES * _BLOCK_SAMPLES
    blocks, tail = waveform[:whole].reshape(-1, _BLOCK_SAMPLES), waveform[whole:]
    sums = np.einsum("ij,ij->i", blocks, blocks)
    return float(sums.sum(dtype=np.float64)) + float(np.einsum("i,i->", tail, tail))


def _count_clipped(waveform: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.abs(waveform) >= FULL_SCALE, prepend=False, append=False))
    runs = edges[1::2] - edges[::2]
    return int(runs[runs >= CLIPPED_RUN].sum())


def _sum_features(fbank: np.ndarray) -> Iterator[list[float]]:
    """Yields two lists with one sum per feature bin: the sums of the values, then those of their squares."""
    widened = fbank if fbank.dtype == np.float32 else np.take(_FLOAT32, fbank.view(np.uint16))
    values = widened.astype(np.float64)
    for total in (np.einsum("ij->j", values), np.einsum("ij,ij->j", values, values)):
        yield (np.rint(total * _SUM_STEPS) / _SUM_STEPS).tolist()


def _largest(entries: list[list]) -> list[list]:
    """Returns the NUM_EXTREMES largest entries; ids break ties, so the order of `entries` does not matter."""
    return sorted(entries, key=lambda entry: (-entry[0], *entry[1:]))[:NUM_EXTREMES]


def _by_length(histogram: dict[str, int]) -> dict[int, int]:
    return {int(length): histogram[length] for length in sorted(histogram, key=int)}


def _add(some: list[float], others: list[float]) -> list[float]:
    """Adds two lists element by element; either list may be empty."""
    return [a + b for a, b in itertools.zip_longest(some, others, fillvalue=0.0)]
