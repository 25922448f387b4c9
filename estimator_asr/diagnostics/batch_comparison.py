"""A dumped batch beside the records that it came from: ids, lengths and values.

A value of a batch is the record's own, float16 widened exactly, or where SpecAugment masks it the mean of its
bin in its utterance. And all of the batch is, bit by bit, what the data gives at its position once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.diagnostics import batch_dump
from tfrecord_builder import errors

# The mean is summed in another order here.
_MEAN_TOLERANCE = 1e-3
_IDS = {"token_ids": "num_tokens", "character_ids": "num_characters"}


class Source(NamedTuple):
    """What the data gives at the position of a batch.

    Attributes:
        examples: parsed records with their texts (schema.parse_examples as numpy), in the order of the rows.
        features, labels: the batch made of them once more.
    """

    examples: Sequence[Mapping[str, np.ndarray]]
    features: Mapping[str, np.ndarray]
    labels: Mapping[str, np.ndarray]


class Row(NamedTuple):
    """One utterance of a batch; without features, record and batch are None.

    Attributes:
        ids: of the tokens, as they were fed.
        record, batch: float32 [num_frames, num_bins], as stored and as fed.
        masked: bool, where the batch has the mean of a bin instead.
        mismatches: each as `WHAT is GOT, expected WANT`.
    """

    utterance_id: str
    transcript: str
    pronunciation: str
    ids: np.ndarray
    record: Optional[np.ndarray]
    batch: Optional[np.ndarray]
    masked: Optional[np.ndarray]
    mismatches: tuple[str, ...]


def compare(dump: batch_dump.Dump, source: Source, is_masked: bool) -> list[Row]:
    """Lays each utterance of a dumped batch beside its record.

    Args:
        dump: of the batch, or of the first replica's part of it; rows without labels fill it up and are left
            out.
        source: what the data gives for the same part.
        is_masked: whether the run masked features.

    Raises:
        errors.UserError: most utterances of the batch are others than the data gives.
    """
    count = int(np.count_nonzero(dump.features["num_tokens"]))
    alike = sum(_is_alike(dump.features, row, each) for row, each in zip(range(count), source.examples))
    if count != len(source.examples) or 2 * alike < count:
        raise errors.UserError(
            f"{dump.path}: its {count} utterances are not the {len(source.examples)} that the data gives as "
            f"batch {dump.position[1]} of seed {dump.position[0]}, expected the same; give the --data_dir "
            "that it was dumped from, or dump again."
        )
    return [_compare_row(dump, row, source, is_masked) for row in range(count)]


def _is_alike(features, row, example):
    """Whether tokens and frames are as many as the record's, and the tokens the same."""
    ids = features["token_ids"][row, : features["num_tokens"][row]]
    num_frames = len(example["fbank"]) if "fbank" in features else 0
    return (
        np.array_equal(ids, example["token_ids"]) and num_frames == features.get("num_frames", {row: 0})[row]
    )


def _compare_row(dump, row, source, is_masked):
    example = source.examples[row]
    mismatches = [*_ids_problems(dump, row, example)]
    record, batch, masked = None, None, None
    if "fbank" in dump.features:
        record = example["fbank"]
        batch = dump.features["fbank"][row, : dump.features["num_frames"][row]]
        problem, masked = _value_problem(batch, record, is_masked)
        mismatches += filter(None, [problem, _padding_problem(dump.features, row)])
    mismatches += filter(None, [_replay_problem(dump, row, source)])
    texts = (example[name].decode("utf-8") for name in ("utterance_id", "transcript", "pronunciation"))
    ids = dump.features["token_ids"][row, : dump.features["num_tokens"][row]]
    return Row(*texts, ids, record, batch, masked, tuple(dict.fromkeys(mismatches)))


def _ids_problems(dump, row, example) -> Iterator[str]:
    for part in (dump.features, dump.labels):
        for name, count in _IDS.items():
            if name not in part:
                continue
            ids, wanted = part[name][row, : part[count][row]], example[name]
            if part[name].dtype != wanted.dtype:
                yield f"{name} are {part[name].dtype}, expected {wanted.dtype}"
            if not np.array_equal(ids, wanted):
                yield f"{name} are {_list(ids)}, expected {_list(wanted)} as in the record"
            if part[name][row, part[count][row] :].any():
                yield f"{name} behind the {len(ids)} of the utterance are not zero, expected zeros"


def _padding_problem(features, row):
    is_zero = not features["fbank"][row, features["num_frames"][row] :].any()
    return "" if is_zero else "values behind its last frame are not zero, expected zeros"


def _value_problem(batch, record, is_masked):
    """Gives what is wrong, and where the batch has means."""
    if batch.shape != record.shape:
        return f"features are {list(batch.shape)}, expected {list(record.shape)} as in the record", None
    differs = batch != record
    mean = record.mean(axis=0, dtype=np.float64)
    is_mean = np.abs(batch - mean) <= _MEAN_TOLERANCE * np.maximum(1, np.abs(mean))
    wrong = np.argwhere(differs & ~is_mean if is_masked else differs)
    if not len(wrong):
        return "", differs
    frame, place = wrong[0]
    hint = f" or the mean {mean[place]:g}" if is_masked else ""
    problem = f"bin {place} of frame {frame} is {batch[frame, place]:g}"
    return f"{problem}, expected {record[frame, place]:g} as in the record{hint}", differs


def _replay_problem(dump, row, source):
    """Gives what is not bit by bit what the data gives again."""
    for part, again in ((dump.features, source.features), (dump.labels, source.labels)):
        for name in part.keys() - {"seed"}:
            found, wanted = (_strip(each, name, row) for each in (part, again))
            if found.dtype != wanted.dtype or found.shape != wanted.shape:
                got, want = (f"{each.dtype} {list(each.shape)}" for each in (found, wanted))
                return f"{name} are {got}, expected {want} as the data gives again"
            if not np.array_equal(found, wanted):
                largest = np.max(np.abs(found.astype(np.float64) - wanted))
                return f"{name} differ by up to {largest:g} from what the data gives again, expected the same"
    return ""


def _strip(part, name, row):
    """A row without its padding, of which there is more with fixed shapes."""
    count = {**_IDS, "fbank": "num_frames"}.get(name)
    return part[name][row, : part[count][row]] if count else part[name][row]


def _list(ids):
    return " ".join(f"{each}" for each in ids) or "none"
