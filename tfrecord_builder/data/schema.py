"""Converts records to serialised tf.train.Examples and back. An example has these features:

    utterance_id, speaker, transcript, pronunciation   bytes, UTF-8
    token_ids, character_ids, num_frames, duration_ms  int64
    fbank                                              bytes, little-endian, row-major [num_frames, num_bins]
    mark_ids                                           int64, one per character
    written                                            bytes, UTF-8

A text-only record has no num_frames, duration_ms or fbank. A record has mark_ids and written only if they are
not empty.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

import google_crc32c
import numpy as np

from tfrecord_builder.program import lazy_tensorflow as tf

FBANK_DTYPES = ("float16", "float32")
DAMAGED = "E_DAMAGED_RECORD"  # error code for a record whose features do not have the expected size
FRAMING_BYTES = 16  # bytes that a TFRecord file adds to each record: 12 before and 4 after
_RAW_DTYPES = {"float16": "uint16", "float32": "float32"}  # fixed-length decode_raw does not support float16
_COUNTED = {"num_tokens": "token_ids", "num_characters": "character_ids"}
_STRING_KEYS = ("utterance_id", "speaker", "transcript", "pronunciation")


@dataclasses.dataclass(frozen=True)
class Record:
    """An utterance as stored in a data directory.

    Attributes:
        pronunciation: tokens separated by spaces.
        token_ids: ids of the tokens in the token vocabulary.
        character_ids: ids of the transcript's characters in the character vocabulary.
        fbank: features, float16 or float32 [num_frames, num_bins]; None in a text-only record.
        duration_ms: duration of the audio; 0 in a text-only record.
        mark_ids: id of the punctuation mark after each character (see marks.py); empty if no marks are known.
        written: transcript as the corpus writes it, with punctuation marks; empty if it has no marks.
    """

    utterance_id: str
    speaker: str
    transcript: str
    pronunciation: str
    token_ids: Sequence[int]
    character_ids: Sequence[int]
    fbank: Optional[np.ndarray] = None
    duration_ms: int = 0
    mark_ids: Sequence[int] = ()
    written: str = ""


def make_example(record: Record) -> bytes:
    """Serialises a record deterministically; raises ValueError if fbank has the wrong dtype or rank."""
    example = tf.train.Example()
    features = example.features.feature
    for key in _STRING_KEYS:
        features[key].bytes_list.value.append(getattr(record, key).encode("utf-8"))
    for key in ("token_ids", "character_ids"):
        features[key].int64_list.SetInParent()  # the feature must exist even if it is empty
        features[key].int64_list.value.extend(getattr(record, key))
    if record.fbank is not None:
        if record.fbank.dtype.name not in FBANK_DTYPES or record.fbank.ndim != 2:
            raise ValueError(
                f"{record.utterance_id}: fbank is {record.fbank.dtype.name} {record.fbank.shape}, "
                "expected a float16 or float32 matrix"
            )
        features["fbank"].bytes_list.value.append(_to_bytes(record.fbank))
        features["num_frames"].int64_list.value.append(record.fbank.shape[0])
        features["duration_ms"].int64_list.value.append(record.duration_ms)
    if record.mark_ids:
        features["mark_ids"].int64_list.value.extend(record.mark_ids)
    if record.written:
        features["written"].bytes_list.value.append(record.written.encode("utf-8"))
    return example.SerializeToString(deterministic=True)  # protobuf maps are unordered


def replace_features(serialized: bytes, fbank: np.ndarray) -> bytes:
    """Replaces the features in a serialised record; fbank is float16 or float32 [num_frames, num_bins]."""
    example = tf.train.Example.FromString(serialized)
    features = example.features.feature
    features["fbank"].bytes_list.value[:] = [_to_bytes(fbank)]
    features["num_frames"].int64_list.value[:] = [len(fbank)]
    return example.SerializeToString(deterministic=True)


def count(serialized: bytes, key: str) -> int:
    """Returns a serialised record's num_frames, num_tokens or num_characters, depending on `key`."""
    features = tf.train.Example.FromString(serialized).features.feature
    if key == "num_frames":
        return features[key].int64_list.value[0]
    return len(features[_COUNTED[key]].int64_list.value)


def masked_crc(data: bytes) -> int:
    """Returns the CRC32C of data, masked as in TFRecord files (Mask in TensorFlow's lib/hash/crc32c.h)."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def unframe(framed: bytes, size: int) -> bytes:
    """Extracts a serialised record of `size` bytes from its framing in a TFRecord file.

    Raises ValueError if the length or the checksum of the data is wrong.
    """
    data = framed[12:-4]
    if len(data) != size or framed[:8] != struct.pack("<Q", size):
        raise ValueError(f"expected {size} bytes")
    if framed[-4:] != struct.pack("<I", masked_crc(data)):
        raise ValueError("the CRC of its data is wrong")
    return data


def utterance_id(serialized: bytes) -> str:
    """Returns the utterance id of a serialised record."""
    features = tf.train.Example.FromString(serialized).features.feature
    return features["utterance_id"].bytes_list.value[0].decode("utf-8")


def read_shard(path: str) -> Iterator[bytes]:
    """Yields the serialised records of a local TFRecord file in order, and verifies their checksums.

    Raises:
        tf.errors.DataLossError: a record is damaged or truncated; the message states the record's position.
        tf.errors.NotFoundError: the file does not exist.
    """
    return tf.compat.v1.io.tf_record_iterator(path)


def parse_records(
    records: Iterable[bytes],
    num_bins: Optional[int] = None,
    fbank_dtype: str = "float16",
    with_marks: bool = False,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields each serialised record's values as parse_batch returns them, but without the batch axis."""
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        serialized = tf.compat.v1.placeholder(tf.string, [1])
        batch = parse_batch(serialized, num_bins, fbank_dtype, with_marks)
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with contextlib.closing(tf.compat.v1.Session(graph=graph, config=config)) as session:
        for record in records:
            values = session.run(batch, {serialized: [record]})
            yield {name: value[0] for name, value in values.items()}


def parse_batch(
    serialized: tf.Tensor,
    num_bins: Optional[int] = None,
    fbank_dtype: str = "float16",
    with_marks: bool = False,
) -> dict[str, tf.Tensor]:
    """Parses a batch of records and pads them with zeros to the length of the longest.

    Args:
        serialized: string [batch].
        num_bins: values per frame of fbank; if None, fbank is not read and may be missing.
        fbank_dtype: dtype of the stored features, "float16" or "float32".
        with_marks: whether to read mark_ids and written, which are empty if a record does not have them.

    Returns:
        Dict of tensors: utterance_id, speaker, transcript, pronunciation string [batch]; token_ids int32
        [batch, max_tokens]; character_ids int32 [batch, max_characters]; num_tokens, num_characters int32
        [batch].
        If num_bins is set, also fbank float32 [batch, max_frames, num_bins]; num_frames, duration_ms int32
        [batch]. If with_marks is True, also mark_ids int32 [batch, max_marks]; num_marks int32 [batch];
        written string [batch].

    Raises (when the graph runs):
        tf.errors.InvalidArgumentError: an fbank does not have num_frames * num_bins values; the message names
            the first such utterance.
    """
    spec = {key: tf.io.FixedLenFeature([], tf.string) for key in _STRING_KEYS}
    lists = {"token_ids": "num_tokens", "character_ids": "num_characters"}
    if with_marks:
        lists["mark_ids"] = "num_marks"
        spec["written"] = tf.io.FixedLenFeature([], tf.string, default_value="")
    spec.update({key: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for key in lists})
    if num_bins is not None:
        numbers = {key: tf.io.FixedLenFeature([], tf.int64) for key in ("num_frames", "duration_ms")}
        spec.update(numbers, fbank=tf.io.FixedLenFeature([], tf.string))
    parsed = tf.io.parse_example(serialized, spec)
    batch = {key: parsed[key] for key in (*_STRING_KEYS, *(["written"] if with_marks else []))}
    for ids, number in lists.items():
        batch[ids] = tf.cast(parsed[ids].to_tensor(), tf.int32)
        batch[number] = tf.cast(parsed[ids].row_lengths(), tf.int32)
    if num_bins is not None:
        batch["num_frames"] = tf.cast(parsed["num_frames"], tf.int32)
        batch["duration_ms"] = tf.cast(parsed["duration_ms"], tf.int32)
        batch["fbank"] = _decode_fbank(
            parsed["fbank"], batch["num_frames"], batch["utterance_id"], num_bins, fbank_dtype
        )
    return batch


def shard_name(split: str, index: int, count: int) -> str:
    """Returns the file name of a shard, such as train-00000-of-00016.tfrecord."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


def _decode_fbank(stored, num_frames, utterance_id, num_bins: int, fbank_dtype: str) -> tf.Tensor:
    """Decodes the stored bytes, string [batch], to float32 [batch, max_frames, num_bins]."""
    dtype = tf.as_dtype(fbank_dtype)
    longest = tf.reduce_max(tf.concat([num_frames, [0]], axis=0))  # the added 0 is an empty batch's maximum
    bytes_per_frame = num_bins * dtype.size
    lengths, expected = tf.strings.length(stored), num_frames * bytes_per_frame
    what = f"{num_bins} {fbank_dtype} numbers"
    message = _describe_first_damaged(lengths, expected, num_frames, utterance_id, what)
    is_whole = tf.reduce_all(tf.equal(lengths, expected))
    with tf.control_dependencies([tf.debugging.Assert(is_whole, [message])]):
        # Rows have room for at least one number, because decode_raw rejects empty rows.
        length = tf.maximum(longest * bytes_per_frame, dtype.size)
        raw = tf.io.decode_raw(stored, _RAW_DTYPES[fbank_dtype], little_endian=True, fixed_length=length)
    values = tf.bitcast(raw[:, : longest * num_bins], dtype)
    return tf.reshape(tf.cast(values, tf.float32), [tf.shape(stored)[0], longest, num_bins])


def _describe_first_damaged(lengths, expected, num_frames, utterance_id, what: str) -> tf.Tensor:
    text = tf.strings.as_string
    sizes = [": fbank has ", text(lengths), " bytes, expected ", text(expected), " for ", text(num_frames)]
    messages = tf.strings.join(
        [f"{DAMAGED}: utterance ", utterance_id, *sizes, f" frames of {what}; build the data again"]
    )
    return tf.strings.reduce_join(tf.boolean_mask(messages, tf.not_equal(lengths, expected))[:1])


def _to_bytes(fbank: np.ndarray) -> bytes:
    return np.ascontiguousarray(fbank, fbank.dtype.newbyteorder("<")).tobytes()
