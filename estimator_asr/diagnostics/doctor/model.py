"""Model directory: whether it can be opened, and whether the model is fed what the records contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_asr.checkpointing import best_checkpoints, checkpoints
from estimator_asr.diagnostics.doctor import findings
from estimator_asr.experiment import experiment, model_directory
from estimator_asr.inputs import input_fn, splits
from estimator_asr.monitoring import watchdog
from tfrecord_builder.data import dataset_info, schema

_MEAN_TOLERANCE = 1e-3  # the mean is summed in another order here
_COUNTS = {"fbank": "num_frames", "token_ids": "num_tokens", "character_ids": "num_characters"}


def check(model_dir: str) -> Iterator[findings.Finding]:
    """Yields the findings of a model directory.

    Raises:
        errors.UserError: it cannot be opened, or has no checkpoint that can be read.
    """
    model = model_directory.open_model_directory(model_dir)
    kind, classes = model.config.model, model.num_classes
    yield findings.ok(
        f"{kind} model of token type {model.config.token_type} with {classes:,} classes; all files are there"
    )
    checkpoint = checkpoints.latest(model_dir)
    checkpoints.check(checkpoint, model)
    yield findings.ok(f"checkpoint of step {checkpoints.global_step(checkpoint):,} can be read")
    kept = best_checkpoints.read(model_dir)
    if kept:
        tag = model.config.spec.error_rate
        yield findings.ok(f"best on dev at step {kept[0].step:,}: {tag} {kept[0].error_rate:.4f}")
    else:
        yield findings.warning(f"{model_dir}: nothing has been evaluated yet, so there is no best checkpoint")
    alarm = watchdog.last_alarm(model_dir)
    if alarm:
        yield findings.warning(f"last alarm at step {alarm[0]:,}: {alarm[1]}")


def check_data(model_dir: str, data_dirs: Sequence[str]) -> Iterator[findings.Finding]:
    """Yields whether each data directory fits the model, and a batch of them their records.

    Raises:
        errors.UserError: one does not fit, or something cannot be opened.
    """
    config = model_directory.open_model_directory(model_dir).config
    for data_dir in data_dirs:
        model_directory.check_data(model_dir, config, dataset_info.DatasetInfo.load(data_dir), data_dir)
        yield findings.ok(f"{data_dir} has the vocabulary, token type and frontend of {model_dir}")
    yield from check_batch(config, data_dirs)


def check_batch(config: experiment.ExperimentConfig, data_dirs: Sequence[str]) -> Iterator[findings.Finding]:
    """Yields each difference between the first batch of a training and its records, or that there is none.

    Raises:
        errors.UserError: there is no train split, or it is damaged.
    """
    source = splits.read_split(dataset_info.load_all(data_dirs), data_dirs, "train", config.spec)
    read = input_fn.build_input_fn(source, config.input, training=True, seed=config.train.seed)
    with splits.explain_damage(data_dirs, "train"):
        features, labels = next(input_fn.read_elements(lambda: read().take(1)))
        bucketing = source.bucket(config.input, 1)
        records = input_fn.read_batch(source, bucketing, config.input, features.pop("seed"))
        examples = list(input_fn.read_elements(lambda: _parse(records, source)))
    is_masked = config.input.spec_augment and config.spec.reads_audio
    mismatches = dict.fromkeys(compare(features, labels, examples, is_masked))  # ids are in both parts
    yield from map(findings.problem, mismatches)
    if not mismatches:
        yield findings.ok(f"the first batch has what its {len(examples)} records have")


def _parse(records, source):
    dataset = tf.data.Dataset.from_tensor_slices(records)
    return schema.parse_examples(dataset, source.num_bins, source.fbank_dtype)


def compare(
    features: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    examples: Sequence[Mapping[str, np.ndarray]],
    is_masked: bool,
) -> Iterator[str]:
    """Yields each difference of a batch, `<utterance id>: <what> is <got>, expected <want>`.

    A feature is the record's (float16 is widened exactly) or, where SpecAugment masks it, the mean of its bin
    over the utterance.

    Args:
        features, labels: as the model_fn gets them, without the seed.
        examples: of schema.parse_examples, in the order of the rows.
        is_masked: whether SpecAugment may have masked features.
    """
    for row, example in enumerate(examples):
        utterance_id = example["utterance_id"].decode("utf-8")
        for part in (features, labels):
            for name in sorted(part.keys() & _COUNTS.keys()):
                values, count = part[name][row], part[_COUNTS[name]][row]
                mismatch = _compare_values(name, values[:count], example[name], is_masked)
                if mismatch:
                    yield f"{utterance_id}: {mismatch}"
                if values[count:].any():
                    yield f"{utterance_id}: padding of {name} is not zero, expected zeros"


def _compare_values(name, values, record, is_masked):
    """Returns the first difference, or ""."""
    if values.shape != record.shape:
        return f"shape of {name} is {list(values.shape)}, expected {list(record.shape)} as in the record"
    is_right, mask = values == record, ""
    if name == "fbank" and is_masked:
        mean = np.broadcast_to(record.mean(axis=0, dtype=np.float64), record.shape)
        is_right |= np.abs(values - mean) <= _MEAN_TOLERANCE * np.maximum(1, np.abs(mean))
    if is_right.all():
        return ""
    place = tuple(np.argwhere(~is_right)[0])
    if name == "fbank" and is_masked:
        mask = f" or the mean {mean[place]:g}"
    where = f"{name}[{', '.join(map(str, place))}]"
    return f"{where} is {values[place]:g}, expected {record[place]:g} as in the record{mask}"
