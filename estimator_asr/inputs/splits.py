"""A data split, which may span several data directories, and its shards."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import task_spec
from estimator_asr.inputs import buckets
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, schema
from tfrecord_builder.program import urls

# Patterns that find a UserError from shard_cache, or a damaged record, in a TensorFlow error message.
_FETCHING = re.compile(rf"{errors.UserError.__name__}: (.+)")
_DAMAGED = re.compile(rf"{schema.DAMAGED}: (.+?)\]?$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class DataShard:
    """A shard in a data directory, with its size and hash from dataset_info.json."""

    path: str
    num_bytes: int
    sha256: str


def list_shards(info: dataset_info.DatasetInfo, data_dir: str, split: str) -> tuple[DataShard, ...]:
    """Returns the shards of a split; raises errors.UserError if one is missing or has the wrong size."""
    pairs = zip(info.shard_paths(data_dir, split), info.splits[split].shards)
    return tuple(DataShard(path, shard.num_bytes, shard.sha256) for path, shard in pairs)


def describe_seen_speakers(infos: Sequence[dataset_info.DatasetInfo], split: str) -> Iterator[str]:
    """Yields a sentence if all speakers of a split are also in the train split of the same directory."""
    parts = [info.splits[split] for info in infos if split in info.splits]
    num_speakers = sum(part.num_speakers for part in parts)
    if num_speakers and all(part.num_speakers == part.shared_speakers.get("train") for part in parts):
        yield (
            f"{split}: all {num_speakers} speakers are also in train, so error rates on {split} say nothing "
            f"about voices that the model has not heard; use other speakers for {split} (for a corpus "
            "without a dev split, build --dev_fraction=0.05 moves whole speakers to dev)"
        )


def has_remote(shards: Sequence[DataShard]) -> bool:
    """Returns True if any of the shards is in an object store."""
    return any(urls.is_remote(shard.path) for shard in shards)


@dataclasses.dataclass(frozen=True)
class Split:
    """The shards of a split and the statistics that training needs."""

    spec: task_spec.TaskSpec  # spec of the model that reads the split
    shards: tuple[DataShard, ...]
    length_counts: dict[int, int]  # {length in spec.unit: number of utterances}
    seconds: float  # total duration of the audio; 0 for text
    num_bins: Optional[int]  # features per frame; None if the model reads tokens
    fbank_dtype: str  # data type of the features in the shards
    max_tokens: int  # maximum number of tokens in an utterance
    sha256: str  # hash of the shards' names, sizes and hashes
    unknown_fraction: float = 0.0  # fraction of tokens that are not in the vocabulary
    has_marks: bool = False  # whether to read mark_ids and written, see schema.parse_batch
    index_dir: str = ""  # directory for the record index's files; if empty, the user's cache directory

    @classmethod
    def of_records(cls, spec: task_spec.TaskSpec, num_bins: Optional[int], fbank_dtype: str) -> Split:
        """Returns a split without shards, for records in memory."""
        return cls(spec, (), {}, 0.0, num_bins, fbank_dtype, 0, "", has_marks=spec.writes_marks)

    @property
    def num_utterances(self) -> int:
        return sum(self.length_counts.values())

    @property
    def total_length(self) -> int:
        """Total number of frames or tokens in an epoch, without padding."""
        return sum(length * count for length, count in self.length_counts.items())

    def bucket(self, config: config_lib.InputConfig, num_replicas: int = 1) -> buckets.Bucketing:
        """Returns the split's buckets and batch sizes for the batch budget in `config`."""
        budget = getattr(config, self.spec.batch_budget)
        return buckets.choose(self.length_counts, config.num_buckets, budget, num_replicas)


def read_split(
    infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str], split: str, spec: task_spec.TaskSpec
) -> Split:
    """Joins the parts of a split from several data directories; skips directories without that split.

    Raises:
        errors.UserError: no directory has the split, the split lacks features or tokens for the model or has
            utterances that are too long, the directories store features as different types, or a shard is
            missing or truncated.
    """
    pairs = [(info, path) for info, path in zip(infos, data_dirs) if split in info.splits]
    pairs = pairs or [(infos[0], data_dirs[0])]  # then shard_paths raises an error that lists the splits
    shards = [shard for info, path in pairs for shard in list_shards(info, path, split)]
    parts = [info.splits[split] for info, _ in pairs]
    length_counts = Counter()
    for part in parts:
        length_counts.update(part.frame_lengths if spec.reads_audio else part.token_lengths)
    del length_counts[0]  # augmented copies without words have no tokens
    _check_content(pairs, split, spec, length_counts)
    described = [dataclasses.astuple(shard) for part in parts for shard in part.shards]
    num_unknown = sum(part.unknown_tokens for part in parts)
    return Split(
        spec,
        tuple(shards),
        dict(length_counts),
        seconds=sum(part.seconds for part in parts),
        num_bins=pairs[0][0].frontend.num_bins if spec.reads_audio else None,
        fbank_dtype=pairs[0][0].fbank_dtype,
        max_tokens=max(max(part.token_lengths, default=0) for part in parts),
        sha256=hashlib.sha256(json.dumps(described).encode()).hexdigest(),
        unknown_fraction=num_unknown / max(sum(part.num_tokens for part in parts), 1),
        has_marks=spec.writes_marks,
    )


def _check_content(pairs, split, spec, length_counts):
    where = ",".join(path for _, path in pairs)
    for info, path in pairs:
        check_marks(path, info, spec)
    if not length_counts or (spec.reads_audio and any(info.frontend is None for info, _ in pairs)):
        raise errors.UserError(
            f"{where}: split {split!r} has no {'audio features' if spec.reads_audio else 'tokens'}, which "
            f"the {spec.name} model needs; choose another --data_dir or --model"
        )
    for info, path in pairs if spec.reads_audio else ():
        check_lengths(path, info, split)
    dtypes = sorted({info.fbank_dtype for info, _ in pairs})
    if len(dtypes) > 1:
        raise errors.UserError(
            f"{where}: features are stored as {' and '.join(dtypes)}, expected a single type; build all of "
            "the data with the same --fbank_dtype"
        )


def check_marks(data_dir: str, info: dataset_info.DatasetInfo, spec: task_spec.TaskSpec) -> None:
    """Raises errors.UserError if only the data, or only the model, has punctuation marks."""
    if info.has_marks and not spec.writes_marks:
        raise errors.UserError(
            f"{data_dir} contains texts with punctuation marks, which the {spec.name} model cannot read; "
            "pass another --data_dir, or train with --model=punctuation"
        )
    if spec.writes_marks and not info.has_marks:
        raise errors.UserError(
            f"{data_dir} contains no punctuation marks, which the punctuation model needs; pass data built "
            "with --corpus=punctuated"
        )


def check_lengths(data_dir: str, info: dataset_info.DatasetInfo, split: str) -> None:
    """Raises errors.UserError if utterances are too long for the encoders that read these features."""
    longest, lengths = info.frontend.max_seconds, info.splits[split].frame_lengths
    seconds = info.frontend.frame_seconds
    num_long = sum(count for length, count in lengths.items() if length * seconds > longest)
    if num_long:
        raise errors.UserError(
            f"{data_dir}: {num_long} utterances in split {split} are longer than {longest} s, the maximum "
            f"for encoders with --frontend={info.frontend.frontend}; build the data again"
        )


@contextlib.contextmanager
def explain_damage(data_dirs: Sequence[str], split: str) -> Iterator[None]:
    """Turns TensorFlow's error into a UserError if a record is damaged or a shard cannot be fetched."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        fetching = _FETCHING.search(error.message)
        if fetching:
            raise errors.UserError(fetching[1]) from error
        damage = _DAMAGED.search(error.message)
        if isinstance(error, tf.errors.InvalidArgumentError) and not damage:
            raise
        # TensorFlow may put the graph's traceback before the line that names the record.
        reason = damage[1] if damage else error.message.partition("\n\t")[0].splitlines()[-1].strip()
        paths = ",".join(data_dirs)
        verify = shlex.join(["python", "-m", "tfrecord_builder.verify", f"--data_dir={paths}"])
        raise errors.UserError(
            f"{paths}: a shard of split {split} is damaged ({reason}); to find the shard, run "
            f"{verify}; then copy or build the data again"
        ) from error
