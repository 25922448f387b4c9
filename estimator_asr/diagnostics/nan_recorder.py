"""Keeps what is needed to find out why a step was no number, and decides whether training goes on.

The step itself changed nothing (optimization), so the weights are those that the batch met.
"""

from __future__ import annotations

import hashlib
import math
import platform
import shlex
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api
from estimator_asr.diagnostics import nan_files
from tfrecord_builder import errors

_SHOWN_UTTERANCES = 3


class NanRecorderHook(estimator_api.SessionRunHook):
    """Writes MODEL_DIR/nan/step-N for a step that is not finite; ends training when there are too many."""

    def __init__(
        self,
        tensors: Mapping[str, tf.Tensor],
        *,
        model_dir: str,
        config_json: str,
        source: nan_files.BatchSource,
        max_skipped: int,
        is_chief: bool = True,
    ):
        """Takes the tensors of the step by name.

        Args:
            tensors: "is_finite" bool [], the same on all replicas; "number" int64 [], steps before this one;
                "position" int64 [2], features["seed"]; "loss", "gradient_norm", "learning_rate" float32 [].
            model_dir: where files are written.
            config_json: text of the config.
            source: of the records.
            max_skipped: steps that may be left out, those of earlier runs included.
            is_chief: writes the files; the other workers come to the same decisions.
        """
        self._tensors = dict(tensors)
        self._model_dir = model_dir
        self._config_json = config_json
        self._source = source
        self._max_skipped = max_skipped
        self._is_chief = is_chief

    def begin(self):
        self._steps = set(nan_files.read_quarantine(self._model_dir))
        self._last = None

    def after_create_session(self, session, coord):
        (self._saver,) = session.graph.get_collection(tf.compat.v1.GraphKeys.SAVERS)[:1]

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self._tensors)

    def after_run(self, run_context, run_values):
        values = run_values.results
        step = int(values["number"])
        if values["is_finite"] or step == self._last:  # of several batches of a step the first is kept
            return
        self._last = step
        self._steps.add(step)
        utterances = self._write(step, values, run_context.session) if self._is_chief else []
        if len(self._steps) > self._max_skipped:
            raise errors.UserError(self._refusal(step, values, utterances))
        logging.warning(
            "step %d left out: %s; %d of %d such steps, see %s",
            *(step, _describe(values, utterances), len(self._steps), self._max_skipped),
            nan_files.step_directory(self._model_dir, step),
        )

    def _write(self, step, values, session):
        records = self._source.read(values["position"])
        path = nan_files.step_directory(self._model_dir, step)
        utterances = nan_files.write(
            path,
            self._report(step, values),
            self._config_json,
            records,
            self._source,
            lambda prefix: self._saver.save(session, prefix, write_meta_graph=False, write_state=False),
        )
        nan_files.add_to_quarantine(self._model_dir, step, values["position"], utterances)
        return utterances

    def _report(self, step, values):
        figures = ("loss", "gradient_norm", "learning_rate")
        return {
            "step": step,
            "position": [int(number) for number in values["position"]],
            **{name: nan_files.figure(values[name]) for name in figures},
            "fbank_dtype": self._source.fbank_dtype,
            "config_sha256": hashlib.sha256(self._config_json.encode()).hexdigest(),
            "versions": {
                "tensorflow": tf.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }

    def _refusal(self, step, values, utterances):
        path = nan_files.step_directory(self._model_dir, step)
        allowed = f" after --skip_bad_batches={self._max_skipped}" if self._max_skipped else ""
        return (
            f"{path}: {_describe(values, utterances)} at step {step}{allowed}, expected a number; "
            f"{self._suspicion()}{shlex.join(['python', '-m', 'estimator_asr.replay', f'--nan_dir={path}'])} "
            "names the cause, "
            f"--skip_bad_batches={len(self._steps)} goes on without the batch"
        )

    def _suspicion(self):
        """An utterance that is in all bad batches, of a few, is hardly there by chance."""
        steps = nan_files.read_quarantine(self._model_dir).values()
        common = set.intersection(*({row[-1] for row in rows} for rows in steps)) if len(steps) > 1 else ()
        if not common:
            return ""
        return f"all {len(steps)} such batches have {', '.join(sorted(common)[:_SHOWN_UTTERANCES])}; "


def _describe(values, utterances):
    name = "loss" if not math.isfinite(values["loss"]) else "gradient_norm"
    text = f"{name.replace('_', ' ')} is {values[name]:g}"
    if not utterances:
        return text
    ids = ", ".join(utterance.utterance_id for utterance in utterances[:_SHOWN_UTTERANCES])
    rest = len(utterances) - _SHOWN_UTTERANCES
    return f"{text} for utterances {ids}" + (f" and {rest} more" if rest > 0 else "")
