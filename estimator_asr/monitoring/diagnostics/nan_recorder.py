"""NaN recorder: saves everything needed to replay a step whose loss or gradients are NaN or Inf.

Such a step does not change the weights (see training/optimizer), so the weights that it used can be saved.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import estimator_api
from estimator_asr.monitoring import advice
from estimator_asr.monitoring.diagnostics import nan_files
from tfrecord_builder import errors

_SHOWN_UTTERANCES = 3


@dataclasses.dataclass(eq=False)
class NanRecorderHook(estimator_api.SessionRunHook):
    """A hook that writes MODEL_DIR/nan/step-N for each step with NaN or Inf; too many of them end training.

    `tensors` contains "is_finite" (bool [], the same on all replicas), "number" (int64 [], the number of
    previous steps), "position" (int64 [2], features["seed"]), and "loss", "gradient_norm" and "learning_rate"
    (float32 [] each). `read_records` takes a position (seed + epoch, index of the batch in the epoch) and
    returns the batch's serialised records for all replicas, in the order of the batch's rows.
    """

    tensors: Mapping[str, tf.Tensor]
    model_dir: str
    config_json: str  # settings of the run, as JSON text
    read_records: Callable[[Sequence[int]], list[bytes]]
    fbank_dtype: str  # dtype of the features in the records
    max_skipped: int  # maximum number of skipped steps, including those in earlier runs
    is_writer: bool = True  # one worker writes the files, but every worker counts skipped steps

    def begin(self):
        self._steps = set(nan_files.read_quarantine(self.model_dir))
        self._last = None

    def after_create_session(self, session, coord):
        (self._saver,) = session.graph.get_collection(tf.compat.v1.GraphKeys.SAVERS)[:1]

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self.tensors)

    def after_run(self, run_context, run_values):
        values = run_values.results
        step = int(values["number"])
        if values["is_finite"] or step == self._last:  # only the first bad batch of a step is recorded
            return
        self._last = step
        self._steps.add(step)
        path = nan_files.step_directory(self.model_dir, step)
        utterances = self._write(path, step, values, run_context.session) if self.is_writer else []
        problem = _describe(values, utterances)
        if len(self._steps) > self.max_skipped:
            raise errors.UserError(self._refusal(path, step, problem))
        skipped = f"{len(self._steps)} of at most {self.max_skipped} steps have been skipped"
        logging.warning("step %d was skipped: %s; %s; see %s", step, problem, skipped, path)

    def _write(self, path, step, values, session):
        save = functools.partial(self._saver.save, session, write_meta_graph=False, write_state=False)
        records = self.read_records(values["position"])
        report = {
            "step": step,
            "position": [int(number) for number in values["position"]],
            **{name: nan_files.to_json(values[name]) for name in ("loss", "gradient_norm", "learning_rate")},
            "fbank_dtype": self.fbank_dtype,
            "tensorflow": tf.__version__,
        }
        utterances = nan_files.write(path, report, self.config_json, records, save)
        nan_files.add_to_quarantine(self.model_dir, step, values["position"], utterances)
        return utterances

    def _refusal(self, path, step, problem):
        allowed = f" after --skip_bad_batches={self.max_skipped}" if self.max_skipped else ""
        replay = advice.command("estimator_asr.replay", nan_dir=path)
        return (
            f"{path}: {problem} at step {step}{allowed}; {self._common_utterances()}to find the cause, run "
            f"{replay}; to skip the batch and continue, pass --skip_bad_batches={len(self._steps)}"
        )

    def _common_utterances(self):
        """Returns a clause naming the utterances that all bad batches share (likely culprits), or ""."""
        steps = nan_files.read_quarantine(self.model_dir).values()
        common = set.intersection(*({row[-1] for row in rows} for rows in steps)) if len(steps) > 1 else ()
        if not common:
            return ""
        shown = ", ".join(sorted(common)[:_SHOWN_UTTERANCES])
        return f"all {len(steps)} batches with NaN or Inf contain {shown}; "


def _describe(values, utterances):
    name = "gradient_norm" if math.isfinite(values["loss"]) else "loss"
    text = f"{name.replace('_', ' ')} is {values[name]:g}"
    if not utterances:
        return text
    ids = ", ".join(utterance.utterance_id for utterance in utterances[:_SHOWN_UTTERANCES])
    num_more = len(utterances) - _SHOWN_UTTERANCES
    return f"{text} for utterances {ids}" + (f" and {num_more} more" if num_more > 0 else "")
