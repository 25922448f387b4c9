"""Reads and writes dataset_info.json, which describes a data directory.

Because of this file, training needs no flags for the data. The file is written last, so a directory without
the file is incomplete.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import schema, vocabulary
from tfrecord_builder.program import config_json, urls
from tfrecord_builder.storage import files

INFO_FILE = "dataset_info.json"
TOKENS_FILE = "tokens.txt"
CHARACTERS_FILE = "characters.txt"
READINGS_FILE = "readings.tsv"
REJECTED_FILE = "rejected.tsv"
REJECTED_COLUMNS = ("utterance_id", "split", "reason", "recording")
BPE_FILE = "bpe.model"
REPORT_FILE = "report.html"


def load_all(data_dirs: Sequence[str]) -> list[DatasetInfo]:
    """Reads each directory's dataset_info.json; raises UserError like `load`, or if a path is repeated."""
    places = [path if urls.is_remote(path) else os.path.realpath(path) for path in data_dirs]
    repeated = sorted({path for path, place in zip(data_dirs, places) if places.count(place) > 1})
    if repeated:
        raise errors.UserError(
            f"--data_dir has duplicates ({', '.join(repeated)}); pass each directory only once"
        )
    return [DatasetInfo.load(data_dir) for data_dir in data_dirs]


def is_known_speaker(speaker: str) -> bool:
    """Returns False for an unknown speaker: "", or "<directory>/" in builds from several corpora."""
    return bool(speaker) and not speaker.endswith("/")


@dataclasses.dataclass(frozen=True)
class ShardInfo:
    """A TFRecord file; items_sha256 is the hash of its .jsonl file, or empty if there is no such file."""

    file: str
    num_records: int
    num_bytes: int
    sha256: str
    items_sha256: str = ""

    def __post_init__(self):
        if not re.fullmatch("[^/\0\ud800-\udfff]+", self.file):
            raise errors.UserError(f"shard is {self.file!r}, expected a file name without a directory")


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """Statistics and shards of one split.

    Attributes:
        frame_lengths, token_lengths: map from a length to the number of utterances with this length. In data
            for the punctuation model, token_lengths counts characters.
        num_marks: number of characters that a punctuation mark follows, in data for the punctuation model.
        num_sentences: number of distinct transcripts, or of pronunciations if there are no transcripts.
        shared_sentences, shared_speakers: map from the name of another split to the number of sentences or
            speakers that also occur in that split.
    """

    num_utterances: int
    num_speakers: int
    seconds: float
    num_tokens: int
    num_characters: int
    unknown_tokens: int
    unknown_characters: int
    frame_lengths: dict[int, int]
    token_lengths: dict[int, int]
    shards: tuple[ShardInfo, ...]
    num_marks: int = 0
    num_sentences: int = 0
    shared_sentences: dict[str, int] = dataclasses.field(default_factory=dict)
    shared_speakers: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def hours(self) -> float:
        return self.seconds / 3600


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """The contents of a data directory, as dataset_info.json stores them.

    Attributes:
        frontend: settings of the features; None for text-only data.
        fbank_dtype: dtype of the stored features, "float16" or "float32".
        token_type: unit of the tokens, one of vocabulary.TOKEN_TYPES.
        tokens_sha256, characters_sha256, readings_sha256: hex digests of tokens.txt, characters.txt and
            readings.tsv.
        feature_mean, feature_stddev: mean and standard deviation of each bin over all train frames; empty for
            text-only data.
        splits: map from the name of a split to its SplitInfo.
        num_rejected: number of rejected utterances in all splits.
        config_sha256: hex digest of all settings that affect the records, except the corpus and vocabularies.
        bpe_sha256: hex digest of the SentencePiece model; empty unless token_type is bpe.
        token_counts: number of occurrences of each token in the train split, indexed by token id.
        rejected_sha256, report_sha256: hex digests of rejected.tsv and report.html; empty if a file
            does not exist.
        exclude_sha256: hex digest of the --exclude table; empty if --exclude was not set.

    Raises errors.UserError if fbank_dtype or token_type is unknown.
    """

    frontend: Optional[frontend.FrontendConfig]
    fbank_dtype: str
    token_type: str
    tokens_sha256: str
    characters_sha256: str
    readings_sha256: str
    feature_mean: tuple[float, ...]
    feature_stddev: tuple[float, ...]
    splits: dict[str, SplitInfo]
    num_rejected: int
    config_sha256: str = ""
    bpe_sha256: str = ""
    token_counts: tuple[int, ...] = ()
    rejected_sha256: str = ""
    report_sha256: str = ""
    exclude_sha256: str = ""

    def __post_init__(self):
        for name, choices in (("fbank_dtype", schema.FBANK_DTYPES), ("token_type", vocabulary.TOKEN_TYPES)):
            value = getattr(self, name)
            if value not in choices:
                raise errors.UserError(f"{name} is {value!r}, expected one of {', '.join(choices)}")

    def save(self, data_dir: str) -> None:
        """Writes dataset_info.json atomically; must be called after all other files have been written."""
        text = json.dumps(config_json.to_json_dict(self), ensure_ascii=False, indent=1)
        files.write_text(os.path.join(data_dir, INFO_FILE), f"{text}\n")

    @classmethod
    def load(cls, data_dir: str) -> DatasetInfo:
        """Reads dataset_info.json; raises UserError if it is missing or not valid."""
        path = os.path.join(data_dir, INFO_FILE)
        if not files.is_directory(data_dir):
            raise errors.UserError(f"{data_dir}: data directory does not exist; build it first")
        try:
            return config_json.from_json_dict(cls, config_json.parse(files.read_text(path)))
        except FileNotFoundError:
            raise errors.UserError(
                f"{data_dir}: {INFO_FILE} is missing, so the data is incomplete; run the build to the end"
            ) from None
        except errors.UserError as error:
            raise errors.UserError(f"{path}: {error}") from error
        except ValueError as error:
            raise errors.UserError(f"{path} is not valid JSON ({error}); build the data again") from error

    @property
    def has_marks(self) -> bool:
        """True if the data are texts with punctuation marks, which only the punctuation model reads."""
        return any(split.num_marks for split in self.splits.values())

    @property
    def shards(self) -> list[ShardInfo]:
        """The shards of all splits."""
        return [shard for _, split in sorted(self.splits.items()) for shard in split.shards]

    def shard_paths(self, data_dir: str, split: str) -> list[str]:
        """Returns the paths of a split's shards; raises UserError if one is missing or has another size."""
        if split not in self.splits:
            raise errors.UserError(
                f"{data_dir}: split {split!r} does not exist; existing splits: "
                f"{', '.join(sorted(self.splits))}"
            )
        return [_check_shard(data_dir, shard) for shard in self.splits[split].shards]


def _check_shard(data_dir: str, shard: ShardInfo) -> str:
    path = os.path.join(data_dir, shard.file)
    try:
        num_bytes, _ = files.size_and_time(path)
    except FileNotFoundError:
        raise errors.UserError(f"{path}: shard is missing; build the data again") from None
    if num_bytes != shard.num_bytes:
        raise errors.UserError(
            f"{path}: shard has {num_bytes} bytes, expected {shard.num_bytes}; copy or build the data again"
        )
    return path
