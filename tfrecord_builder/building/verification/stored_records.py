"""Reads records from TFRecord files, even from damaged files, and checks their features, labels and lengths.

A record consists of a uint64 length, a uint32 CRC of the length, the data and a uint32 CRC of the data, all
little-endian (tensorflow/core/lib/io/record_writer.h). TensorFlow's own reader stops at the first error;
RecordFile reports each error with its position, and continues as long as it knows where the next record
starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import textwrap
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Optional

import numpy as np
from google.protobuf import message

from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.data import marks, schema, vocabulary
from tfrecord_builder.program import lazy_tensorflow as tf

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
_BLOCK_BYTES = 1 << 20
_MAX_BYTES = 1 << 31  # limit for a serialised tf.train.Example
_TEXT_KINDS = {
    **dict.fromkeys(("utterance_id", "speaker", "transcript", "pronunciation"), "bytes_list"),
    **dict.fromkeys(("token_ids", "character_ids"), "int64_list"),
}
_MARK_KINDS = {"mark_ids": "int64_list", "written": "bytes_list"}  # optional features
_ACOUSTIC_KINDS = {"fbank": "bytes_list", "num_frames": "int64_list", "duration_ms": "int64_list"}
_LISTS = ("token_ids", "character_ids", "mark_ids")  # all other features have one value


@dataclasses.dataclass(frozen=True)
class RawRecord:
    """One record in a file."""

    number: int  # index in the file, starting from 0
    offset: int  # byte position of the record's header in the file
    data: Optional[bytes]  # None if the file is truncated or the length is damaged; reading stops there
    problem: str = ""  # what is wrong with the record; empty if the record is valid


class RecordFile:
    """A TFRecord file that is read once, from start to end; num_bytes is the number of bytes read so far."""

    def __init__(self, file: BinaryIO):
        self.num_bytes = 0
        self._file = file
        self._digest = hashlib.sha256()

    def records(self) -> Iterator[RawRecord]:
        """Yields the records, including damaged ones."""
        number, offset = 0, self.num_bytes
        while header := self._read(_HEADER_BYTES):
            data, problem = self._read_data(header)
            yield RawRecord(number, offset, data, problem)
            if data is None:
                return
            number, offset = number + 1, self.num_bytes

    def finish(self) -> str:
        """Reads the remaining bytes; returns the sha256 of the whole file in hex."""
        while self._read(_BLOCK_BYTES):
            pass
        return self._digest.hexdigest()

    def _read_data(self, header: bytes) -> tuple[Optional[bytes], str]:
        """Returns the data after a header (None if unreadable) and the problem (empty if there is none)."""
        if len(header) < _HEADER_BYTES:
            return None, f"file ends after {len(header)} of the header's {_HEADER_BYTES} bytes"
        problem = _crc_problem("length", header[:8], header[8:])
        if problem:
            return None, problem
        (length,) = struct.unpack_from("<Q", header)
        if length >= _MAX_BYTES:
            return None, f"length is {length} bytes, expected less than {_MAX_BYTES}"
        body = self._read(length + _FOOTER_BYTES)
        if len(body) < length + _FOOTER_BYTES:
            return None, f"file ends after {len(body)} of the record's {length + _FOOTER_BYTES} bytes"
        return body[:length], _crc_problem("data", body[:length], body[length:])

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.num_bytes += len(data)
        self._digest.update(data)
        return data


class DamagedRecordError(Exception):
    """Raised with the reason why a record cannot be read."""


@dataclasses.dataclass(frozen=True)
class RecordSpec:
    """Vocabularies and feature settings that records must match; frontend is None for text-only data."""

    tokens: vocabulary.Vocabulary
    characters: vocabulary.Vocabulary
    frontend: Optional[frontend.FrontendConfig]
    fbank_dtype: str


def read_record(serialized: bytes, expected: RecordSpec) -> schema.Record:
    """Parses a serialised record; the fbank array is a view of `serialized`, not a copy.

    Raises DamagedRecordError if the data is not a tf.train.Example, the features or their types are wrong, a
    text is not UTF-8, or fbank has the wrong size.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except message.DecodeError:
        raise DamagedRecordError("not a tf.train.Example") from None
    kinds = {**_TEXT_KINDS, **(_ACOUSTIC_KINDS if expected.frontend else {})}
    kinds.update({name: kind for name, kind in _MARK_KINDS.items() if name in features})
    if set(features) != set(kinds):
        names = ", ".join(sorted(features)) or "none"
        raise DamagedRecordError(f"features are {names}, expected {', '.join(sorted(kinds))}")
    values = {name: _value(name, features[name], kind) for name, kind in kinds.items()}
    values["mark_ids"] = tuple(values.get("mark_ids", ()))
    num_frames = values.pop("num_frames", 0)
    if expected.frontend:
        values["fbank"] = _read_fbank(values["fbank"], num_frames, expected)
    return schema.Record(**values)


def utterance_id(serialized: bytes) -> str:
    """Returns the utterance id of a record, even if the record is damaged; empty if the id cannot be read."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
        return _value("utterance_id", features["utterance_id"], "bytes_list")
    except (message.DecodeError, DamagedRecordError):
        return ""


def problems(record: schema.Record, expected: RecordSpec) -> Iterator[str]:
    """Yields a message for each problem in a record, such as "num_frames is 3, expected 5"."""
    if not record.utterance_id:
        yield "utterance id is empty; ids must be unique"
    if not (record.token_ids or record.mark_ids) and copy_ids.WORDLESS not in record.utterance_id:
        yield "number of tokens is 0, expected one or more"
    tokens, characters = record.pronunciation.split(), record.transcript.replace(" ", "")
    yield from _id_problems("token_ids", record.token_ids, expected.tokens, tokens)
    if record.character_ids:
        yield from _id_problems("character_ids", record.character_ids, expected.characters, characters)
    if record.mark_ids:
        yield from _mark_problems(record)
    if record.fbank is not None:
        yield from _feature_problems(record, expected.frontend)


def _id_problems(name: str, ids: Sequence[int], words: vocabulary.Vocabulary, labels) -> Iterator[str]:
    invalid = [label_id for label_id in ids if not 0 <= label_id < words.size]
    if invalid:
        yield f"{name} contains {invalid[0]}, expected 0 to {words.size - 1}"
    elif list(ids) != words.encode(labels):
        text = textwrap.shorten(" ".join(labels), 50, placeholder="...")
        yield f"{name} do not match the labels {text!r}"


def _mark_problems(record: schema.Record) -> Iterator[str]:
    if len(record.mark_ids) != len(record.character_ids):
        yield f"number of marks is {len(record.mark_ids)}, expected {len(record.character_ids)}"
    invalid = [mark_id for mark_id in record.mark_ids if not 0 <= mark_id < len(marks.MARKS)]
    if invalid:
        yield f"mark_ids contains {invalid[0]}, expected 0 to {len(marks.MARKS) - 1}"


def _feature_problems(record: schema.Record, config: frontend.FrontendConfig) -> Iterator[str]:
    num_frames = len(record.fbank)
    if not np.isfinite(record.fbank).all():
        frame = int(np.flatnonzero(~np.isfinite(record.fbank).all(axis=1))[0])
        yield f"features contain NaN or Inf, first in frame {frame}"
    least, most = (
        frontend.num_frames(int((record.duration_ms + half) * config.sample_rate / 1000), config)
        for half in (-0.5, 0.5)  # duration_ms is rounded
    )
    if not least <= num_frames <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        yield f"num_frames is {num_frames}, expected {expected} for {record.duration_ms} ms"
    if not config.encoder and num_frames < vocabulary.min_ctc_frames(record.pronunciation.split(" ")):
        yield f"record is too short for its labels: {len(record.token_ids)} tokens, {num_frames} frames"


def _value(name: str, feature: tf.train.Feature, kind: str):
    values = getattr(feature, kind).value
    if name in _LISTS:
        return list(values)
    if len(values) != 1:
        raise DamagedRecordError(f"{name} has {len(values)} {kind} values, expected 1")
    try:
        return values[0].decode("utf-8") if kind == "bytes_list" and name != "fbank" else values[0]
    except UnicodeDecodeError as error:
        raise DamagedRecordError(f"{name}: byte {error.start} is not UTF-8") from None


def _read_fbank(data: bytes, num_frames: int, expected: RecordSpec) -> np.ndarray:
    dtype = np.dtype(expected.fbank_dtype).newbyteorder("<")
    num_bytes = num_frames * expected.frontend.num_bins * dtype.itemsize
    if len(data) != num_bytes or num_frames < 1:
        raise DamagedRecordError(
            f"fbank has {len(data)} bytes, expected {num_bytes} for {num_frames} frames of "
            f"{expected.frontend.num_bins} {expected.fbank_dtype} values"
        )
    return np.frombuffer(data, dtype).reshape(num_frames, -1)


def _crc_problem(part: str, data: bytes, stored: bytes) -> str:
    crc, expected = int.from_bytes(stored, "little"), schema.masked_crc(data)
    return "" if crc == expected else f"CRC of its {part} is {crc:08x}, expected {expected:08x}"
