"""Evaluation log: metrics of every evaluation on dev, for early stopping and the plateau schedule.

MODEL_DIR/evaluations.json lists {"step", "known_at", "metrics"}, oldest first. `step` is the step of the
checkpoint. `known_at` is the first step whose update may depend on the evaluation: `step` itself if training
waits for the evaluation, or a later step if another process evaluates. So at any step, all processes use the
same evaluations, even after a restart.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from estimator_asr.experiment import checkpoints, estimator_api
from tfrecord_builder import errors
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

FILE = "evaluations.json"
Row = TypeVar("Row", bound=NamedTuple)


class LoggedEvaluation(NamedTuple):
    """The metrics of one evaluation, keyed by tag."""

    step: int
    known_at: int
    metrics: dict[str, float]


def read_evaluations(model_dir: str) -> list[LoggedEvaluation]:
    """Returns all evaluations, oldest first. Raises errors.UserError if the file is damaged."""
    return read_rows(
        os.path.join(model_dir, FILE), LoggedEvaluation, "delete it, which discards all earlier evaluations"
    )


def record_evaluation(model_dir: str, evaluation: LoggedEvaluation) -> None:
    """Adds an evaluation to the log, replacing any earlier evaluation of the same step."""
    others = [other for other in read_evaluations(model_dir) if other.step != evaluation.step]
    write_rows(os.path.join(model_dir, FILE), sorted([*others, evaluation]))


def record_metrics(estimator: estimator_api.Estimator, metrics: Mapping[str, float]) -> None:
    """Adds the result of Estimator.evaluate to the log in the Estimator's model directory."""
    step = known_at = int(metrics["global_step"])
    if estimator.config.task_type == "evaluator":
        # The workers are at most one checkpoint interval past the newest checkpoint. Another interval gives
        # every process time to read the log.
        steps = [step, *map(checkpoints.step_of, checkpoints.list_checkpoints(estimator.model_dir))]
        known_at = max(steps) + 2 * estimator.config.save_checkpoints_steps
    values = {tag: float(value) for tag, value in metrics.items() if tag != "global_step"}
    record_evaluation(estimator.model_dir, LoggedEvaluation(step, known_at, values))


def forget_after(model_dir: str, step: int) -> None:
    """Deletes the evaluations of checkpoints later than `step`, the step from which training continues."""
    evaluations = read_evaluations(model_dir)
    earlier = [evaluation for evaluation in evaluations if evaluation.step <= step]
    if len(earlier) < len(evaluations):
        write_rows(os.path.join(model_dir, FILE), earlier)


def read_rows(path: str, row_type: type[Row], advice: str) -> list[Row]:
    """Reads a JSON file that write_rows has written; returns [] if the file does not exist.

    Raises errors.UserError if the file is damaged; `advice` tells users without a backup what to do.
    """
    try:
        return [
            row_type(
                **{name: row[name] for name in row_type._fields if name != "metrics"},
                metrics={tag: float(value) for tag, value in row["metrics"].items()},
            )
            for row in config_json.parse(files.read_text(path))
        ]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise errors.UserError(
            f"{path}: cannot be read ({error!r}); restore it from a copy, or {advice}"
        ) from error


def write_rows(path: str, rows: Sequence[NamedTuple]) -> None:
    """Writes rows as a JSON list, atomically; NaN and Inf become strings, as JSON cannot represent them."""
    values = []
    for row in rows:
        metrics = {tag: value if math.isfinite(value) else str(value) for tag, value in row.metrics.items()}
        values.append({**row._asdict(), "metrics": metrics})
    files.write_text(path, json.dumps(values, indent=1))


class History:
    """The error rates that are known at a given step; rereads the log whenever the file has changed."""

    def __init__(self, model_dir: str, error_rate: str):
        self._model_dir, self._error_rate = model_dir, error_rate
        self._version, self._evaluations = None, []

    def known_at(self, step: int) -> list[tuple[int, float]]:
        """Returns (step, error rate) for each evaluation that is known at `step`, oldest first."""
        path = os.path.join(self._model_dir, FILE)
        version = files.size_and_time(path) if os.path.exists(path) else None
        if version != self._version:
            self._version, self._evaluations = version, read_evaluations(self._model_dir)
        return [
            (evaluation.step, evaluation.metrics.get(self._error_rate, math.nan))
            for evaluation in self._evaluations
            if evaluation.known_at <= step
        ]
