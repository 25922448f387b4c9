"""The record in both directions: an utterance to a serialised tf.train.Example and back.

    utterance_id, speaker, transcript, pronunciation   bytes, UTF-8
    token_ids, character_ids, num_frames, duration_ms  int64
    fbank                                              bytes, little-endian, row-major [num_frames, num_bins]

A text-only record leaves out num_frames, duration_ms and fbank. No other module spells these names but
record_checks, which reads them without trust.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

FBANK_DTYPES = ("float16", "float32")
DAMAGED = "fbank has"  # what the error of reading a record begins with whose features have another size
_STRING_KEYS = ("utterance_id", "speaker", "transcript", "pronunciation")


@dataclasses.dataclass(frozen=True)
class Record:
    """One utterance.

    Attributes:
      pronunciation: tokens with blanks between them.
      token_ids: ids of the tokens in the token vocabulary.
      character_ids: ids of the transcript's characters in the character vocabulary.
      fbank: float16 or float32 [num_frames, num_bins]; None for text alone.
      duration_ms: length of the audio; 0 for text alone.
    """

    utterance_id: str
    speaker: str
    transcript: str
    pronunciation: str
    token_ids: Sequence[int]
    character_ids: Sequence[int]
    fbank: Optional[np.ndarray] = None
    duration_ms: int = 0


def make_example(record: Record) -> bytes:
    """Serialises a record; the same record gives the same bytes.

    Raises:
      ValueError: fbank is not a float16 or float32 matrix.
    """
    features = {
        "utterance_id": _bytes_feature(record.utterance_id.encode("utf-8")),
        "speaker": _bytes_feature(record.speaker.encode("utf-8")),
        "transcript": _bytes_feature(record.transcript.encode("utf-8")),
        "pronunciation": _bytes_feature(record.pronunciation.encode("utf-8")),
        "token_ids": _int64_feature(record.token_ids),
        "character_ids": _int64_feature(record.character_ids),
    }
    if record.fbank is not None:
        features["fbank"] = _bytes_feature(_fbank_bytes(record))
        features["num_frames"] = _int64_feature([record.fbank.shape[0]])
        features["duration_ms"] = _int64_feature([record.duration_ms])
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)  # a proto map has no order of its own


def parse_examples(
    dataset: tf.data.Dataset, num_bins: Optional[int] = None, fbank_dtype: str = "float16"
) -> tf.data.Dataset:
    """Parses serialised records, in their order.

    Args:
      dataset: of string [], each a serialised record.
      num_bins: features a frame; None leaves the acoustic part unread, whether it is there or not.
      fbank_dtype: how the features are stored, "float16" or "float32".

    Returns:
      Dataset of dicts: utterance_id, speaker, transcript, pronunciation string []; token_ids int32
      [num_tokens]; character_ids int32 [num_characters]; num_tokens, num_characters int32 []; and with
      num_bins also fbank float32 [num_frames, num_bins]; num_frames, duration_ms int32 [].

    Raises (while the dataset is read):
      tf.errors.InvalidArgumentError: naming the utterance whose fbank is not num_frames * num_bins numbers.
    """

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        return _parse_example(serialized, num_bins, fbank_dtype)

    return dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def shard_name(split: str, index: int, count: int) -> str:
    """Names a shard, as in train-00000-of-00016.tfrecord."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


def _parse_example(serialized: tf.Tensor, num_bins: Optional[int], fbank_dtype: str) -> dict[str, tf.Tensor]:
    ids = tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)
    spec = {key: tf.io.FixedLenFeature([], tf.string) for key in _STRING_KEYS}
    spec.update(token_ids=ids, character_ids=ids)
    if num_bins is not None:
        spec.update(
            fbank=tf.io.FixedLenFeature([], tf.string),
            num_frames=tf.io.FixedLenFeature([], tf.int64),
            duration_ms=tf.io.FixedLenFeature([], tf.int64),
        )
    parsed = tf.io.parse_single_example(serialized, spec)
    example = {key: _narrow(value) for key, value in parsed.items()}
    example["num_tokens"] = tf.size(example["token_ids"])
    example["num_characters"] = tf.size(example["character_ids"])
    if num_bins is not None:
        example["fbank"] = _decode_fbank(example, num_bins, fbank_dtype)
    return example


def _narrow(value: tf.Tensor) -> tf.Tensor:
    return tf.cast(value, tf.int32) if value.dtype == tf.int64 else value


def _decode_fbank(example: dict[str, tf.Tensor], num_bins: int, fbank_dtype: str) -> tf.Tensor:
    dtype = tf.as_dtype(fbank_dtype)
    num_bytes = tf.strings.length(example["fbank"])
    expected = example["num_frames"] * num_bins * dtype.size
    message = tf.strings.join(
        [
            "utterance ",
            example["utterance_id"],
            f": {DAMAGED} ",
            tf.strings.as_string(num_bytes),
            " bytes, expected ",
            tf.strings.as_string(expected),
            " for ",
            tf.strings.as_string(example["num_frames"]),
            f" frames of {num_bins} {fbank_dtype} numbers; build the data again",
        ]
    )
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(num_bytes, expected), [message])]):
        values = tf.io.decode_raw(example["fbank"], dtype, little_endian=True)
    return tf.cast(tf.reshape(values, [-1, num_bins]), tf.float32)


def _fbank_bytes(record: Record) -> bytes:
    dtype = np.dtype(record.fbank.dtype)
    if dtype.name not in FBANK_DTYPES or record.fbank.ndim != 2:
        raise ValueError(
            f"{record.utterance_id}: fbank is {dtype.name} {record.fbank.shape}, "
            "expected a float16 or float32 matrix"
        )
    return np.ascontiguousarray(record.fbank, dtype.newbyteorder("<")).tobytes()


def _bytes_feature(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int64_feature(values: Sequence[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
