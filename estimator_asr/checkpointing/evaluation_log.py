"""What every evaluation on dev found, on disk: what stops training or lowers the rate is counted from it.

MODEL_DIR/evaluations.json is a list of {"step", "known_at", "figures"}, oldest first. `step` is that of the
checkpoint. `known_at` is the first step whose update may depend on the evaluation: `step` itself where
training waits for the evaluation, a later one where another process evaluates. So what is known at a step is
the same for every process and after every restart.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from typing import NamedTuple

from estimator_asr import estimator_api
from estimator_asr.checkpointing import checkpoints
from tfrecord_builder import errors, files

FILE = "evaluations.json"


class Evaluation(NamedTuple):
    """One evaluation; a figure that is no number is NaN."""

    step: int
    known_at: int
    figures: dict[str, float]


def read(model_dir: str) -> list[Evaluation]:
    """Returns all evaluations, oldest first; none if the file is not there.

    Raises:
        errors.UserError: it is not what this module writes.
    """
    path = os.path.join(model_dir, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
        return [Evaluation(row["step"], row["known_at"], _from_json(row["figures"])) for row in rows]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise errors.UserError(
            f"{path}: evaluations cannot be read ({error!r}), expected what training wrote; "
            "restore the file, or remove it to count from none."
        ) from error


def record(model_dir: str, evaluation: Evaluation) -> None:
    """Adds an evaluation in the place of one of the same step."""
    others = [other for other in read(model_dir) if other.step != evaluation.step]
    _write(model_dir, [*others, evaluation])


def forget_after(model_dir: str, step: int) -> None:
    """Drops evaluations of later checkpoints than the one that training continues from."""
    found = read(model_dir)
    kept = [evaluation for evaluation in found if evaluation.step <= step]
    if len(kept) < len(found):
        _write(model_dir, kept)


class Recorder(estimator_api.Exporter):
    """Records every evaluation; first of the exporters, so that the others may count on it."""

    name = "evaluations"

    def __init__(self, error_rate: str):
        self._error_rate = error_rate

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if self._error_rate in eval_result:
            step = int(eval_result["global_step"])
            figures = {name: float(value) for name, value in eval_result.items() if name != "global_step"}
            evaluation = Evaluation(step, _known_at(estimator.config, estimator.model_dir, step), figures)
            record(estimator.model_dir, evaluation)


class History:
    """The error rates that are known at a step; the file is read again when it has changed."""

    def __init__(self, model_dir: str, error_rate: str):
        self._model_dir = model_dir
        self._error_rate = error_rate
        self._version, self._evaluations = None, []

    def known_at(self, step: int) -> list[tuple[int, float]]:
        """Returns pairs of step and error rate, oldest first."""
        version = _version(os.path.join(self._model_dir, FILE))
        if version != self._version:
            self._version, self._evaluations = version, read(self._model_dir)
        return [
            (evaluation.step, evaluation.figures.get(self._error_rate, math.nan))
            for evaluation in self._evaluations
            if evaluation.known_at <= step
        ]


def _known_at(config, model_dir, step):
    """Another process than the evaluating one is at most one interval beyond its newest checkpoint; one more
    for the time until every process sees the file."""
    if config.task_type != "evaluator":
        return step
    newest = max(map(checkpoints.step_of, checkpoints.list_checkpoints(model_dir)), default=step)
    return max(newest, step) + 2 * config.save_checkpoints_steps


def _version(path):
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _write(model_dir: str, evaluations: Iterable[Evaluation]):
    rows = [
        {**evaluation._asdict(), "figures": _to_json(evaluation.figures)}
        for evaluation in sorted(evaluations, key=lambda evaluation: evaluation.step)
    ]
    with files.writing(os.path.join(model_dir, FILE)) as path, open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)


def _to_json(figures):
    """JSON has no NaN and no infinity."""
    return {name: value if math.isfinite(value) else str(value) for name, value in figures.items()}


def _from_json(figures):
    return {name: float(value) for name, value in figures.items()}
