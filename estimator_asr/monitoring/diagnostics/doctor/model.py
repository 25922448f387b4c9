"""Checks whether a model directory can be opened, and whether a training batch matches its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from estimator_asr.experiment import checkpoints, experiment, model_directory
from estimator_asr.inputs import input_fn, splits
from estimator_asr.monitoring import watchdog
from estimator_asr.monitoring.diagnostics.doctor import findings
from estimator_asr.training.checkpointing import best_checkpoints
from tfrecord_builder.data import dataset_info, schema

_MEAN_TOLERANCE = 1e-3  # relative; SpecAugment adds the terms of the mean in a different order
_COUNTS = {
    "fbank": "num_frames",
    "token_ids": "num_tokens",
    "character_ids": "num_characters",
    "mark_ids": "num_marks",
}


def check(model_dir: str) -> Iterator[findings.Finding]:
    """Yields findings about a model directory.

    Raises errors.UserError if the directory cannot be opened or has no readable checkpoint.
    """
    model = model_directory.open_model_directory(model_dir)
    kind, sizes = model.config.model, f"{model.num_classes:,} classes"
    if model.config.spec.writes_marks:
        sizes = f"{model.num_classes:,} characters"
    token_type = model.config.token_type
    yield findings.ok(f"{kind} model of token type {token_type} with {sizes}; no file is missing")
    checkpoint = checkpoints.latest(model_dir)
    checkpoints.check(checkpoint, model)
    yield findings.ok(f"checkpoint of step {checkpoints.global_step(checkpoint):,} can be read")
    entries = best_checkpoints.read_best(model_dir)
    if entries:
        tag = model.config.spec.error_rate
        yield findings.ok(f"best on dev at step {entries[0].step:,}: {tag} {entries[0].error_rate:.4f}")
    else:
        reason = "because no checkpoint has been evaluated yet"
        yield findings.warning(f"{model_dir} has no best checkpoint, {reason}")
    alarm = watchdog.last_alarm(model_dir)
    if alarm:
        yield findings.warning(f"last alarm at step {alarm[0]:,}: {alarm[1]}")


def check_data(model_dir: str, data_dirs: Sequence[str]) -> Iterator[findings.Finding]:
    """Yields a finding for each data directory that fits the model, then the findings of check_batch.

    Raises errors.UserError if a data directory does not fit the model, or a directory cannot be opened.
    """
    config = model_directory.open_model_directory(model_dir).config
    for data_dir in data_dirs:
        model_directory.check_data(model_dir, config, dataset_info.DatasetInfo.load(data_dir), data_dir)
        yield findings.ok(f"{data_dir} has the same vocabulary, token type and frontend as {model_dir}")
    yield from check_batch(config, data_dirs)


def check_batch(config: experiment.ExperimentConfig, data_dirs: Sequence[str]) -> Iterator[findings.Finding]:
    """Yields a problem for each place where the first training batch differs from its records, otherwise ok.

    Raises errors.UserError if the train split is missing or damaged.
    """
    source = splits.read_split(dataset_info.load_all(data_dirs), data_dirs, "train", config.spec)
    read = input_fn.build_input_fn(source, config.input, training=True, seed=config.train.seed)
    with splits.explain_damage(data_dirs, "train"):
        features, labels = next(input_fn.read_elements(lambda: read().take(1)))
        bucketing = source.bucket(config.input, 1)
        records = input_fn.read_batch(source, bucketing, config.input, features.pop("seed"))
        examples = list(schema.parse_records(records, source.num_bins, source.fbank_dtype, source.has_marks))
    is_masked = config.input.spec_augment and config.spec.reads_audio
    # Ids can occur in both features and labels, but each mismatch is shown only once.
    mismatches = dict.fromkeys(compare(features, labels, examples, is_masked))
    yield from map(findings.problem, mismatches)
    if not mismatches:
        yield findings.ok(f"the first batch matches its {len(examples)} records")


def compare(
    features: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    examples: Sequence[Mapping[str, np.ndarray]],
    is_masked: bool,
) -> Iterator[str]:
    """Yields a line for each difference between a batch and its records: `<utterance>: <what> is <got>, ...`.

    Values in the batch must equal those in the record (float16 becomes float32 exactly). A feature that
    SpecAugment may have masked can also equal the mean of its bin over the utterance.

    Args:
        features, labels: a batch as the model_fn receives it, without the seed.
        examples: records parsed by schema.parse_records, in the order of the batch's rows.
        is_masked: True if SpecAugment may have masked features.
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
                    yield f"{utterance_id}: padding of {name} contains values other than zero"


def _compare_values(name, values, record, is_masked):
    """Describes the first difference between a row of the batch and its record; "" if there is none."""
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
