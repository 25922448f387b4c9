"""Run a training step that was no number once more, and name the first tensor that holds an inf or NaN.

    python -m estimator_asr.replay --nan_dir=AM/nan/step-812

The directory holds all that is needed but the vocabularies, which are those of the model directory above it.
The batch is the same to the last bit, dropout and masks included; it runs on one device, in float32.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow loads; errors still come as exceptions

import tensorflow as tf

from estimator_asr import experiment, model_directory
from estimator_asr.diagnostics import nan_files, step_replay
from estimator_asr.inputs import batch_source as replay_inputs
from tfrecord_builder import config_flags, errors


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """What to run again."""

    nan_dir: Optional[str] = config_flags.setting(None, "a directory step-N of MODEL_DIR/nan")

    def __post_init__(self):
        config_flags.validate(self)
        if self.nan_dir is None:
            raise errors.UserError("replay: --nan_dir is missing; give a directory step-N of MODEL_DIR/nan")


def main(argv: list[str]) -> None:
    """Prints what was found."""
    tf.get_logger().setLevel("ERROR")
    config = config_flags.from_flags(ReplayConfig)
    tf.compat.v1.disable_eager_execution()
    report = nan_files.read_report(config.nan_dir)
    utterances = nan_files.read_utterances(config.nan_dir)
    result = run(config.nan_dir, report)
    print("\n".join(describe(report, utterances, result)))


def run(nan_dir: str, report: dict) -> step_replay.Replay:
    """Builds model and batch from the files of a step and runs it."""
    model_dir = os.path.dirname(os.path.dirname(os.path.abspath(nan_dir)))
    model = model_directory.open_model_directory(model_dir)
    model = dataclasses.replace(model, config=experiment.ExperimentConfig.load(nan_dir))
    features, labels = replay_inputs.batch_of(
        nan_files.read_records(nan_dir),
        model.config.input,
        spec=model.config.spec,
        num_bins=model.config.frontend and model.config.frontend.num_bins,
        fbank_dtype=report["fbank_dtype"],
        position=report["position"],
    )
    return step_replay.replay(model, os.path.join(nan_dir, nan_files.CHECKPOINT), features, labels)


def describe(report: dict, utterances: list[nan_files.Utterance], result: step_replay.Replay) -> list[str]:
    """Returns the lines that are printed."""
    seed, index = report["position"]
    lines = [
        f"step {report['step']}: batch {index} of epoch seed {seed}, {len(utterances)} utterances",
        f"loss {result.loss:g} (in training {report['loss']}), "
        f"gradient norm {result.gradient_norm:g} (in training {report['gradient_norm']})",
    ]
    if result.finding is None:
        lines.append(
            "every tensor is finite here: the cause lies in what this replay leaves out, "
            "which is the other device, several replicas, XLA and --precision"
        )
    else:
        lines += _describe_finding(result.finding, [utterance.utterance_id for utterance in utterances])
    lines += ["", "utterance_id\tframes\ttokens\tloss alone"]
    for utterance, loss in zip(utterances, result.utterance_losses):
        lines.append(f"{utterance.utterance_id}\t{utterance.frames}\t{utterance.tokens}\t{loss:.4g}")
    return lines


def _describe_finding(finding, ids):
    shape = " x ".join(map(str, finding.shape)) or "one number"
    lines = [
        f"first tensor that is not finite: {finding.tensor}, made by {finding.op} in the "
        f"{'backward' if finding.is_backward else 'forward'} pass of {finding.layer}",
        f"  shape {shape}, {100 * finding.share:.3g} % of its cells",
    ]
    if finding.rows is not None:
        lines.append(f"  utterances: {', '.join(ids[row] for row in finding.rows)}")
    lines += [f"  from {name}, finite, {low:g} to {high:g}" for name, low, high in finding.inputs]
    return [*lines, f"likely: {finding.cause}"]


def define_flags() -> None:
    """Defines --nan_dir."""
    config_flags.define(ReplayConfig)


if __name__ == "__main__":
    errors.run_program(main, define_flags)
