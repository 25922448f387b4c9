"""What happens after an evaluation: a line for people, the best and the final SavedModel."""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from estimator_asr import config as config_lib
from estimator_asr import estimator_api

ERROR_RATES = {"acoustic": "token_error_rate", "language": "character_error_rate"}


def build_exporters(model: str, receiver_fn: Callable) -> list[estimator_api.Exporter]:
    """Returns the exporters of train_and_evaluate: MODEL_DIR/export/best and MODEL_DIR/export/final.

    Args:
        model: "acoustic" or "language".
        receiver_fn: serving_input_receiver_fn.
    """
    best = estimator_api.BestExporter(
        "best", receiver_fn, compare_fn=build_compare_fn(ERROR_RATES[model]), exports_to_keep=1
    )
    return [Report(), best, build_final_exporter(receiver_fn)]


def build_final_exporter(receiver_fn: Callable) -> estimator_api.Exporter:
    """Returns the exporter that writes once, at the end of training."""
    return estimator_api.FinalExporter("final", receiver_fn)


def build_compare_fn(key: str) -> Callable[[dict, dict], bool]:
    """Returns whether an evaluation is better than the best: by decoded error rate, not by loss."""

    def is_better(best_eval_result, current_eval_result):
        return current_eval_result[key] < best_eval_result[key]

    return is_better


class Report(estimator_api.Exporter):
    """Logs the figures of every evaluation and exports nothing."""

    @property
    def name(self):
        return "report"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        shown = {key: value for key, value in eval_result.items() if key not in ("loss", "global_step")}
        figures = "  ".join(f"{key} {value:.4f}" for key, value in sorted(shown.items()))
        logging.info("dev at step %d: %s", eval_result["global_step"], figures)


def build_features_receiver_fn(config: config_lib.ExperimentConfig) -> Callable:
    """Returns a serving_input_receiver_fn that takes what the model takes: features, or token ids."""

    def receiver_fn():
        if config.model == "acoustic":
            shape = [None, None, config.frontend.num_bins]
            features = {"fbank": tf.compat.v1.placeholder(tf.float32, shape, "fbank")}
            features["num_frames"] = tf.compat.v1.placeholder(tf.int32, [None], "num_frames")
        else:
            features = {"token_ids": tf.compat.v1.placeholder(tf.int32, [None, None], "token_ids")}
            features["num_tokens"] = tf.compat.v1.placeholder(tf.int32, [None], "num_tokens")
        return estimator_api.ServingInputReceiver(features, features)

    return receiver_fn


def final_export_path(model_dir: str) -> str:
    """Returns where train_and_evaluate puts the final export."""
    return os.path.join(model_dir, "export", "final")
