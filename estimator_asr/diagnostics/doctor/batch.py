"""The first batch of a training: whether the model is fed what the records contain.

A value of the batch is the record's (float16 is widened exactly), or, where SpecAugment masks it, the mean of
its bin over the utterance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_asr.diagnostics.doctor import findings
from estimator_asr.experiment import experiment
from estimator_asr.inputs import input_fn, splits
from tfrecord_builder.data import dataset_info, schema

_SPLIT = "train"
_MEAN_TOLERANCE = 1e-3  # the mean is summed in another order here
_COUNTS = {"fbank": "num_frames", "token_ids": "num_tokens", "character_ids": "num_characters"}


def check(config: experiment.ExperimentConfig, data_dirs: Sequence[str]) -> Iterator[findings.Finding]:
    """Yields each difference between the first batch of a training and its records, or that there is none.

    Raises:
        errors.UserError: there is no train split, or it is damaged.
    """
    source = splits.read_split(dataset_info.load_all(data_dirs), data_dirs, _SPLIT, config.spec)
    read = input_fn.build_input_fn(source, config.input, training=True, seed=config.train.seed)
    with splits.explain_damage(data_dirs, _SPLIT):
        features, labels = next(input_fn.read_elements(lambda: read().take(1)))
        position = features.pop("seed")
        records = input_fn.read_batch(source, source.bucket(config.input, 1), config.input, position)
        examples = list(
            input_fn.read_elements(
                lambda: schema.parse_examples(
                    tf.data.Dataset.from_tensor_slices(records), source.num_bins, source.fbank_dtype
                )
            )
        )
    is_masked = config.input.spec_augment and config.spec.reads_audio
    mismatches = list(compare(features, labels, examples, is_masked))
    yield from map(findings.problem, mismatches)
    if not mismatches:
        yield findings.ok(f"the first batch has what its {len(examples)} records have")


def compare(
    features: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    examples: Sequence[Mapping[str, np.ndarray]],
    is_masked: bool,
) -> Iterator[str]:
    """Yields each difference of a batch, `<utterance id>: <what> is <got>, expected <want>`.

    Args:
        features, labels: as the model_fn gets them, without the seed.
        examples: of schema.parse_examples, in the order of the rows.
        is_masked: whether SpecAugment may have masked features.
    """
    for row, example in enumerate(examples):
        utterance_id = example["utterance_id"].decode("utf-8")
        found = [what for part in (features, labels) for what in _compare_row(part, row, example, is_masked)]
        yield from (f"{utterance_id}: {what}" for what in dict.fromkeys(found))


def _compare_row(part, row, example, is_masked) -> Iterator[str]:
    for name in sorted(part.keys() & _COUNTS.keys()):
        values, count = part[name][row], part[_COUNTS[name]][row]
        compare_values = _compare_features if name == "fbank" else _compare_ids
        yield from compare_values(name, values[:count], example[name], is_masked)
        if values[count:].any():
            yield f"padding of {name} is not zero, expected zeros"


def _compare_ids(name, ids, wanted, _) -> Iterator[str]:
    if not np.array_equal(ids, wanted):
        yield f"{name} are {_join(ids)}, expected {_join(wanted)} as in the record"


def _compare_features(name, values, record, is_masked) -> Iterator[str]:
    if values.shape != record.shape:
        yield f"shape of {name} is {list(values.shape)}, expected {list(record.shape)} as in the record"
        return
    mean = record.mean(axis=0, dtype=np.float64)
    is_mean = np.abs(values - mean) <= _MEAN_TOLERANCE * np.maximum(1, np.abs(mean))
    wrong = np.argwhere((values != record) & ~(is_mean & is_masked))
    if len(wrong):
        frame, place = wrong[0]
        mask = f" or the mean {mean[place]:g}" if is_masked else ""
        expected = f"{record[frame, place]:g} as in the record{mask}"
        yield f"bin {place} of frame {frame} is {values[frame, place]:g}, expected {expected}"


def _join(ids):
    return " ".join(map(str, ids)) or "none"
