"""A split over one or several data directories, and the plan that cuts it into batches."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Optional

from estimator_asr import config as config_lib
from estimator_asr.inputs import buckets
from tfrecord_builder import dataset_info, errors


@dataclasses.dataclass(frozen=True)
class Split:
    """What to read.

    Attributes:
        model: "acoustic" (lengths are frames) or "language" (lengths are tokens).
        paths: shard files.
        length_counts: {length: number of utterances}.
        seconds: audio in all; 0 for text.
        num_bins: features a frame; None reads no audio features.
        fbank_dtype: how the shards store them.
        max_tokens: labels of the utterance that has most.
        sha256: of the names, sizes and hashes of the shards.
        unknown_share: of the tokens, those that are not in the vocabulary.
    """

    model: str
    paths: tuple[str, ...]
    length_counts: dict[int, int]
    seconds: float
    num_bins: Optional[int]
    fbank_dtype: str
    max_tokens: int
    sha256: str
    unknown_share: float = 0.0

    @property
    def num_utterances(self) -> int:
        return sum(self.length_counts.values())

    @property
    def total_length(self) -> int:
        """Frames or tokens of an epoch, without padding."""
        return sum(length * count for length, count in self.length_counts.items())


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """How a split is cut into batches: a pure function of its lengths.

    A batch is for all replicas together; each gets a part of it.

    Attributes:
        bucket_ends: longest length of each bucket, rising.
        batch_sizes: utterances a batch of each bucket.
        batches_per_epoch: batches of one epoch, the small last ones included.
    """

    bucket_ends: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    batches_per_epoch: int


def read_split(
    infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str], split: str, model: str
) -> Split:
    """Gathers a split over those of the data directories that have it.

    Raises:
        errors.UserError: none has it, nothing in it has the length that the model needs, the directories
            store features in different types, or a shard is missing or truncated (named).
    """
    having = [(info, path) for info, path in zip(infos, data_dirs) if split in info.splits]
    having = having or [(infos[0], data_dirs[0])]  # shard_paths refuses it and lists what is there
    paths = [shard for info, path in having for shard in info.shard_paths(path, split)]
    counts = Counter()
    for info, _ in having:
        counts.update(
            getattr(info.splits[split], "frame_lengths" if model == "acoustic" else "token_lengths")
        )
    where = ",".join(path for _, path in having)
    if not counts or (model == "acoustic" and any(info.frontend is None for info, _ in having)):
        raise errors.UserError(
            f"{where}: split {split!r} has nothing for the {model} model, expected utterances with "
            f"{'audio features' if model == 'acoustic' else 'tokens'}; give another --data_dir or --model"
        )
    seconds = sum(info.splits[split].seconds for info, _ in having)
    num_bins = having[0][0].frontend.num_bins if model == "acoustic" else None
    max_tokens = max(max(info.splits[split].token_lengths, default=0) for info, _ in having)
    dtype = _fbank_dtype(having, where)
    shards = [dataclasses.astuple(shard) for info, _ in having for shard in info.splits[split].shards]
    digest = hashlib.sha256(json.dumps(shards).encode()).hexdigest()
    num_tokens = sum(info.splits[split].num_tokens for info, _ in having)
    share = sum(info.splits[split].unknown_tokens for info, _ in having) / max(num_tokens, 1)
    return Split(model, tuple(paths), dict(counts), seconds, num_bins, dtype, max_tokens, digest, share)


def plan_batches(split: Split, config: config_lib.InputConfig) -> BatchPlan:
    """Plans the batches within the budget of the config."""
    budget = config.batch_frames if split.model == "acoustic" else config.batch_tokens
    ends = buckets.plan(split.length_counts, config.num_buckets)
    counts = buckets.count(split.length_counts, ends)
    sizes = tuple(min(buckets.batch_size(end, budget), count) for end, count in zip(ends, counts))
    return BatchPlan(ends, sizes, buckets.batches_per_epoch(split.length_counts, ends, sizes))


def padding_share(split: Split, plan: BatchPlan) -> float:
    """Returns the share of an epoch's frames (tokens) that are padding when each is padded to its bucket."""
    padded = sum(
        min(end for end in plan.bucket_ends if end >= length) * count
        for length, count in split.length_counts.items()
    )
    return 1.0 - split.total_length / max(padded, 1)


def _fbank_dtype(having, where):
    dtypes = sorted({info.fbank_dtype for info, _ in having})
    if len(dtypes) > 1:
        raise errors.UserError(
            f"{where}: features are stored as {' and '.join(dtypes)}, expected one type; build them alike"
        )
    return dtypes[0]
