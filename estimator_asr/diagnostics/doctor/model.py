"""Model directory: whether it can be opened, and whether the data fit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from estimator_asr.checkpointing import best_checkpoints, checkpoints
from estimator_asr.diagnostics.doctor import batch, findings
from estimator_asr.experiment import model_directory
from estimator_asr.monitoring import watchdog
from tfrecord_builder.data import dataset_info


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
    step = checkpoints.global_step(checkpoint)
    yield findings.ok(f"checkpoint of step {step:,} can be read")
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
    yield from batch.check(config, data_dirs)
