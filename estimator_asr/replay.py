"""Replays a training step that produced NaN or Inf, and names the first tensor with such a value.

    python -m estimator_asr.replay --nan_dir=AM/nan/step-812

The directory contains everything that is needed except the vocabularies, which are in the model directory AM.
The batch is identical, including dropout and masks; the step runs on one device, in float32.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple, Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import checkpoints, experiment, model_directory, training_config
from estimator_asr.inputs import input_fn, splits
from estimator_asr.models.tasks import tasks
from estimator_asr.monitoring.diagnostics import nan_files, nan_search, trial
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import replica_sums
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program


@dataclasses.dataclass(frozen=True)
class ReplayConfig(config_flags.Checked):
    """Flags of replay."""

    nan_dir: str = config_flags.setting(
        "", "a step-N directory in MODEL_DIR/nan", required=True, checkpoints=True
    )


class Replay(NamedTuple):
    """Results of a replayed step."""

    loss: float  # loss per label
    gradient_norm: float  # norm of the gradients before clipping
    finding: Optional[nan_search.NonFiniteTensor]  # None if the loss and all gradients are finite
    utterance_losses: list[float]  # loss per label of each utterance, run as a batch of its own


def main(config: ReplayConfig) -> None:
    tf.get_logger().setLevel("ERROR")
    tf.compat.v1.disable_eager_execution()
    nan_dir = config.nan_dir
    report, records = nan_files.read_report(nan_dir), nan_files.read_records(nan_dir)
    model = model_directory.open_model_directory(os.path.dirname(os.path.dirname(os.path.abspath(nan_dir))))
    model = dataclasses.replace(model, config=experiment.ExperimentConfig.load(nan_dir))
    frontend = model.config.frontend
    source = splits.Split.of_records(model.config.spec, frontend and frontend.num_bins, report["fbank_dtype"])
    batch = input_fn.batch_of(records, source, model.config.input, report["position"])
    result = replay(model, os.path.join(nan_dir, nan_files.CHECKPOINT), *batch)
    print("\n".join(describe(report, nan_files.list_utterances(records), result)))


def replay(
    model: model_directory.ModelDirectory,
    checkpoint: str,
    features: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
) -> Replay:
    """Runs the forward and backward pass in float32, with the weights of a checkpoint (its path prefix).

    `features` and `labels` are the batch that the model_fn received in training, with the batch's position in
    features["seed"]. Raises errors.UserError if the checkpoint cannot be read or belongs to another model.
    """
    config = strategies.session_config(training_config.TrainConfig())
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        inputs = trial.placeholders((features, labels))
        loss = tasks.for_model(model).forward(*inputs, True).losses.average()
        gradients = tf.gradients(loss, tf.compat.v1.trainable_variables())
        gradients = [replica_sums.merge_rows(gradient) for gradient in gradients if gradient is not None]
        norm = tf.linalg.global_norm(gradients)
        _restore(session, checkpoint)
        feeds = trial.feeds(inputs, (features, labels))
        values = session.run([loss, norm], feeds)
        size = len(features["num_tokens"])
        targets = [loss, *(g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients)]
        finding = nan_search.find_non_finite(session, targets, feeds, size)
        batches = ([_select_row(part, row) for part in (features, labels)] for row in range(size))
        rows = [session.run(loss, trial.feeds(inputs, batch)) for batch in batches]
        return Replay(*map(float, values), finding, list(map(float, rows)))


def _select_row(arrays, row):
    return {key: array if key == "seed" else array[row : row + 1] for key, array in arrays.items()}


def _restore(session, checkpoint):
    try:
        checkpoints.read_shapes(checkpoint)
        tf.compat.v1.train.Saver().restore(session, checkpoint)
    except (checkpoints.DamagedError, tf.errors.OpError, ValueError) as error:
        reason = getattr(error, "reason", "it belongs to another model")
        raise errors.UserError(
            f"{checkpoint}: the checkpoint cannot be loaded into the model whose directory contains it "
            f"({reason}); pass a step-N directory in MODEL_DIR/nan"
        ) from error


def describe(report: dict, utterances: list[nan_files.BatchRow], result: Replay) -> list[str]:
    """Returns the lines to print; `report` is the step's report.json."""
    seed, index = report["position"]
    lines = [
        f"step {report['step']}: batch {index} of epoch seed {seed}, {len(utterances)} utterances",
        f"loss {result.loss:g} (in training {report['loss']}), "
        f"gradient norm {result.gradient_norm:g} (in training {report['gradient_norm']})",
    ]
    if result.finding is None:
        lines.append(
            "every tensor is finite in the replay, so the cause is something that the replay leaves out: "
            "another device, several replicas, XLA or --precision"
        )
    else:
        lines += nan_search.describe(result.finding, [utterance.utterance_id for utterance in utterances])
    lines += ["", "utterance_id\tframes\ttokens\tloss alone"]
    for utterance, loss in zip(utterances, result.utterance_losses):
        lines.append(f"{utterance.utterance_id}\t{utterance.frames}\t{utterance.tokens}\t{loss:.4g}")
    return lines


if __name__ == "__main__":
    program.run(main, ReplayConfig)
