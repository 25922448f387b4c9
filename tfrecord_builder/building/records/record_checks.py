"""Checks the contents of a record: its features, labels and lengths."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np
from google.protobuf import message

from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.data import schema, vocabulary
from tfrecord_builder.program import lazy_tensorflow as tf

_TEXT_KINDS = {
    **dict.fromkeys(("utterance_id", "speaker", "transcript", "pronunciation"), "bytes_list"),
    **dict.fromkeys(("token_ids", "character_ids"), "int64_list"),
}
_ACOUSTIC_KINDS = {"fbank": "bytes_list", "num_frames": "int64_list", "duration_ms": "int64_list"}
_LISTS = ("token_ids", "character_ids")  # all other features have one value


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

    Raises:
        DamagedRecordError: it is not a tf.train.Example, its features or their types are wrong, a text is
            not UTF-8, or fbank has the wrong size.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except message.DecodeError:
        raise DamagedRecordError("is not a tf.train.Example") from None
    kinds = {**_TEXT_KINDS, **(_ACOUSTIC_KINDS if expected.frontend else {})}
    if set(features) != set(kinds):
        names = ", ".join(sorted(features)) or "none"
        raise DamagedRecordError(f"has features {names}, expected {', '.join(sorted(kinds))}")
    values = {name: _value(name, features[name], kind) for name, kind in kinds.items()}
    num_frames = values.pop("num_frames", 0)
    if expected.frontend:
        values["fbank"] = _read_fbank(values["fbank"], num_frames, expected)
    return schema.Record(**values)


def utterance_id(serialized: bytes) -> str:
    """Returns the utterance id of a record, even if the record is damaged; empty if it cannot be read."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
        return _value("utterance_id", features["utterance_id"], "bytes_list")
    except (message.DecodeError, DamagedRecordError):
        return ""


def problems(record: schema.Record, expected: RecordSpec) -> Iterator[str]:
    """Yields a message for each problem in a record, such as "num_frames is 3, expected 5"."""
    if not record.utterance_id:
        yield "utterance id is empty, expected a unique one"
    if not record.token_ids and copy_ids.WORDLESS not in record.utterance_id:
        yield "number of tokens is 0, expected one or more"
    tokens, characters = record.pronunciation.split(), record.transcript.replace(" ", "")
    yield from _id_problems("token_ids", record.token_ids, expected.tokens, tokens)
    if record.character_ids:
        yield from _id_problems("character_ids", record.character_ids, expected.characters, characters)
    if record.fbank is not None:
        yield from _feature_problems(record, expected.frontend)


def _id_problems(name: str, ids: Sequence[int], words: vocabulary.Vocabulary, labels) -> Iterator[str]:
    invalid = [label_id for label_id in ids if not 0 <= label_id < words.size]
    if invalid:
        yield f"{name} has {invalid[0]}, expected 0 to {words.size - 1}"
    elif list(ids) != words.encode(labels):
        text = textwrap.shorten(" ".join(labels), 50, placeholder="...")
        yield f"{name} do not match the labels {text!r}"


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
        raise DamagedRecordError(f"{name} has {len(values)} values of kind {kind}, expected 1")
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
