"""What happens after an evaluation: a line for people, the best and the final SavedModel."""

from __future__ import annotations

import functools
import gc
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable

from absl import logging

from estimator_asr import estimator_api, experiment, model_directory
from estimator_asr.checkpointing import best_checkpoints, evaluation_log, locks
from estimator_asr.tasks import registry

_EVALUATION_FILE = "evaluation.json"


def build_exporters(
    model: model_directory.ModelDirectory, receiver_fn: Callable
) -> list[estimator_api.Exporter]:
    """Returns the exporters of train_and_evaluate: MODEL_DIR/evaluations.json, MODEL_DIR/best,
    MODEL_DIR/export/best and MODEL_DIR/export/final.

    Args:
        model: is trained.
        receiver_fn: serving_input_receiver_fn.
    """
    error_rate = model.config.spec.error_rate
    return [
        evaluation_log.Recorder(error_rate),
        Report(),
        best_checkpoints.BestCheckpoints(model, error_rate),
        BestExporter(receiver_fn, error_rate),
        FinalExporter(receiver_fn),
        FreeMemory(),
    ]


def read_evaluation(export_path: str) -> dict[str, float]:
    """Returns the figures of the newest SavedModel in MODEL_DIR/export/NAME, global_step among them.

    Empty if there is none, or if it was written without.
    """
    for version in _list_versions(export_path)[-1:]:
        path = os.path.join(export_path, version, "assets.extra", _EVALUATION_FILE)
        if os.path.exists(path):
            with open(path) as file:
                return json.load(file)
    return {}


class FinalExporter(estimator_api.Exporter):
    """Writes a SavedModel, with the figures of its evaluation, when training has ended."""

    name = "final"

    def __init__(self, receiver_fn: Callable):
        self._receiver_fn = receiver_fn

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if is_the_final_export:
            self.write(estimator, export_path, checkpoint_path, eval_result)

    def write(self, estimator, export_path, checkpoint_path, eval_result):
        """Writes all of the SavedModel or nothing."""
        figures = {name: float(value) for name, value in eval_result.items()}
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, _EVALUATION_FILE)
            with open(path, "w") as file:
                json.dump(figures, file)
            extra = {_EVALUATION_FILE: path}
            estimator.export_saved_model(
                export_path, self._receiver_fn, assets_extra=extra, checkpoint_path=checkpoint_path
            )


class BestExporter(FinalExporter):
    """Keeps the SavedModel with the lowest decoded error rate, over all runs of a model directory.

    TensorFlow's own replaces it after every start, whatever the figures.
    """

    name = "best"

    def __init__(self, receiver_fn: Callable, error_rate: str):
        super().__init__(receiver_fn)
        self._error_rate = error_rate

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        best = read_evaluation(export_path).get(self._error_rate, math.inf)
        if best_checkpoints.find_error_rate(eval_result, self._error_rate) < best:
            self.write(estimator, export_path, checkpoint_path, eval_result)
        for version in _list_versions(export_path)[:-1]:
            path = os.path.join(export_path, version)
            weights = os.path.join(path, "variables", "variables")
            locks.remove_unless_read(weights, functools.partial(shutil.rmtree, path))


def _list_versions(export_path):
    """Names of the whole SavedModels, oldest first; one that is being written has another kind of name."""
    names = os.listdir(export_path) if os.path.isdir(export_path) else []
    return sorted((name for name in names if name.isdigit()), key=int)


class Report(estimator_api.Exporter):
    """Logs the figures of every evaluation and exports nothing."""

    name = "report"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        shown = {key: value for key, value in eval_result.items() if key not in ("loss", "global_step")}
        figures = "  ".join(f"{key} {value:.4f}" for key, value in sorted(shown.items()))
        logging.info("dev at step %d: %s", eval_result["global_step"], figures)


class FreeMemory(estimator_api.Exporter):
    """Frees the graphs and sessions of the evaluation and the exports; the last of the exporters.

    They refer to themselves, so without this they stay, weights and all, until Python happens to look for
    such circles: 8 MiB more after each evaluation of a model of 6 million weights (measured).
    """

    name = "memory"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        gc.collect()


def build_features_receiver_fn(config: experiment.ExperimentConfig) -> Callable:
    """Returns a serving_input_receiver_fn that takes what the model takes: features, or token ids."""

    def receiver_fn():
        features = registry.of(config).placeholders(config)
        return estimator_api.ServingInputReceiver(features, features)

    return receiver_fn


def export_path(model_dir: str, name: str) -> str:
    """Returns where train_and_evaluate lets the exporter of that name write."""
    return os.path.join(model_dir, "export", name)
