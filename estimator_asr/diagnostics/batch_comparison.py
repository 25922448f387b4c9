"""Compares a dumped batch with its records: ids, lengths and values.

A value of the batch is the record's (float16 is widened exactly), or, where SpecAugment masks it, the mean of
its bin over the utterance. The batch is also identical, bit by bit, to the one read again from its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.diagnostics import batch_dump
from tfrecord_builder import errors

_MEAN_TOLERANCE = 1e-3  # the mean is summed in another order here
_COUNTS = {"fbank": "num_frames", "token_ids": "num_tokens", "character_ids": "num_characters"}


class Source(NamedTuple):
    """The data at the position of a batch."""

    examples: Sequence[Mapping[str, np.ndarray]]  # of schema.parse_examples, in the order of the rows
    features: Mapping[str, np.ndarray]  # read again
    labels: Mapping[str, np.ndarray]


class Row(NamedTuple):
    """One utterance of a batch."""

    utterance_id: str
    transcript: str
    ids: np.ndarray  # tokens in the batch, int32 [num_tokens]
    num_frames: Optional[int]  # of the record; None for text
    masked_fraction: Optional[float]  # of the features; None for text, and if the shapes differ
    mismatches: tuple[str, ...]  # each as `WHAT is GOT, expected WANT`


def compare(dump: batch_dump.Dump, source: Source, is_masked: bool) -> list[Row]:
    """Compares each utterance of a dumped batch with its record; rows without labels are padding.

    Raises:
        errors.UserError: most utterances of the batch are not those of the data.
    """
    count = int(np.count_nonzero(dump.features["num_tokens"]))
    pairs = zip(range(count), source.examples)
    same = sum(
        np.array_equal(_valid(dump.features, "token_ids", row), each["token_ids"]) for row, each in pairs
    )
    if count != len(source.examples) or 2 * same < count:
        raise errors.UserError(
            f"{dump.path}: its {count} utterances are not the {len(source.examples)} of the data in batch "
            f"{dump.position[1]} of seed {dump.position[0]}, expected the same; give the --data_dir that it "
            "was dumped from, or dump again."
        )
    return [_compare_row(dump, row, source, is_masked) for row in range(count)]


def _valid(part, name, row):
    """Returns a row without its padding."""
    values = part[name][row]
    return values[: part[_COUNTS[name]][row]] if name in _COUNTS else values


def _compare_row(dump, row, source, is_masked):
    example = source.examples[row]
    mismatches = [*_id_mismatches(dump, row, example), *_padding_mismatches(dump, row)]
    num_frames, masked_fraction = None, None
    if "fbank" in dump.features:
        record, batch = example["fbank"], _valid(dump.features, "fbank", row)
        num_frames = len(record)
        masked_fraction = np.mean(batch != record) if batch.shape == record.shape else None
        mismatches += _value_mismatches(batch, record, is_masked)
    mismatches += _reread_mismatches(dump, row, source)
    texts = (example[name].decode("utf-8") for name in ("utterance_id", "transcript"))
    ids = _valid(dump.features, "token_ids", row)
    return Row(*texts, ids, num_frames, masked_fraction, tuple(dict.fromkeys(mismatches)))


def _id_mismatches(dump, row, example) -> Iterator[str]:
    for part in (dump.features, dump.labels):
        for name in sorted(part.keys() & {"token_ids", "character_ids"}):
            ids, wanted = _valid(part, name, row), example[name]
            if not np.array_equal(ids, wanted):
                yield f"{name} are {_join(ids)}, expected {_join(wanted)} as in the record"


def _value_mismatches(batch, record, is_masked) -> Iterator[str]:
    if batch.shape != record.shape:
        yield f"shape of fbank is {list(batch.shape)}, expected {list(record.shape)} as in the record"
        return
    mean = record.mean(axis=0, dtype=np.float64)
    is_mean = np.abs(batch - mean) <= _MEAN_TOLERANCE * np.maximum(1, np.abs(mean))
    wrong = np.argwhere((batch != record) & ~(is_mean & is_masked))
    if len(wrong):
        frame, place = wrong[0]
        mask = f" or the mean {mean[place]:g}" if is_masked else ""
        values = f"{batch[frame, place]:g}, expected {record[frame, place]:g} as in the record{mask}"
        yield f"bin {place} of frame {frame} is {values}"


def _padding_mismatches(dump, row) -> Iterator[str]:
    for part in (dump.features, dump.labels):
        for name in part.keys() & _COUNTS.keys():
            if part[name][row, part[_COUNTS[name]][row] :].any():
                yield f"padding of {name} is not zero, expected zeros"


def _reread_mismatches(dump, row, source) -> Iterator[str]:
    for part, again in ((dump.features, source.features), (dump.labels, source.labels)):
        for name in sorted(part.keys() - {"seed"}):
            got, want = _valid(part, name, row), _valid(again, name, row)
            if (got.dtype, got.shape) != (want.dtype, want.shape):
                types = [f"{each.dtype} {list(each.shape)}" for each in (got, want)]
                yield f"{name} is {types[0]}, expected {types[1]} as read again from the data"
            elif not np.array_equal(got, want):
                largest = np.max(np.abs(got.astype(np.float64) - want))
                yield f"{name} differs by up to {largest:g} from the batch read again, expected the same"


def _join(ids):
    return " ".join(map(str, ids)) or "none"
