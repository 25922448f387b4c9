"""Writes pictures, sounds, text, histograms and profiles for TensorBoard."""

from __future__ import annotations

import dataclasses
import os
import struct
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import estimator_api

Value = tf.compat.v1.Summary.Value


def write_values(directory: str, values: Sequence[Value], step: int) -> None:
    """Adds values computed outside a graph to the event file that Estimator writes in `directory`."""
    writer = tf.compat.v1.summary.FileWriterCache.get(directory)
    writer.add_summary(tf.compat.v1.Summary(value=values), step)
    writer.flush()


def image_value(tag: str, png: bytes) -> Value:
    """Returns a PNG picture as a value for the IMAGES tab."""
    width, height = struct.unpack(">II", png[16:24])  # IHDR is the first chunk (PNG specification, 11.2.2)
    image = tf.compat.v1.Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
    return Value(tag=tag, image=image)


def audio_value(tag: str, wav: bytes, sample_rate: int) -> Value:
    """Returns a mono 16-bit WAV file as a value for the AUDIO tab."""
    sound = tf.compat.v1.Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=(len(wav) - 44) // 2,  # a 44-byte header, then 2 bytes per sample
        encoded_audio_string=wav,
        content_type="audio/wav",
    )
    return Value(tag=tag, audio=sound)


def text_value(tag: str, markdown: str) -> Value:
    """Returns Markdown text as a value for the TEXT tab."""
    plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="text")
    metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin)
    return Value(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(markdown, tf.string))


def histogram_hook(gradients: Sequence, steps: int, model_dir: str) -> estimator_api.SessionRunHook:
    """Returns a hook that writes histograms of weights and gradients every `steps` steps, starting at once.

    `gradients` contains (gradient, variable) pairs; a gradient is a tf.Tensor or tf.IndexedSlices. The
    histogram of tf.IndexedSlices covers only the rows that have a gradient.
    """
    histograms = []
    with tf.compat.v1.name_scope(None):
        for gradient, variable in gradients:
            name = variable.name.split(":")[0]
            values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
            histograms += [_histogram(f"weights/{name}", variable), _histogram(f"gradients/{name}", values)]
    # Summaries in a graph collection would be written every --save_summary_steps steps, so these are in none.
    merged = tf.compat.v1.summary.merge(histograms, collections=[])
    return estimator_api.SummarySaverHook(save_steps=steps, output_dir=model_dir, summary_op=merged)


@tf.xla.experimental.jit_scope(compile_ops=False)  # XLA needs static shapes; the number of values varies
def _histogram(tag, tensor):
    """Returns a histogram of the finite values; NaN or Inf would raise an error before hooks report it."""
    values = tf.convert_to_tensor(tensor)
    finite = tf.boolean_mask(values, tf.math.is_finite(values))
    return tf.compat.v1.summary.histogram(tag, finite, collections=[])


@dataclasses.dataclass(eq=False)
class ProfileHook(estimator_api.SessionRunHook):
    """A hook that profiles the steps `first` to `last` (inclusive, counted from 1) for the PROFILE tab."""

    first: int
    last: int
    model_dir: str

    def begin(self):
        self._is_recording = False

    def after_create_session(self, session, coord):
        step = session.run(tf.compat.v1.train.get_global_step(session.graph))
        self._step = int(step) + 1  # the next step, counted from 1

    def before_run(self, run_context):
        if self.first <= self._step <= self.last:
            if not self._is_recording:
                tf.profiler.experimental.start(self.model_dir)
                self._is_recording = True
            self._trace = tf.profiler.experimental.Trace("train", step_num=self._step, _r=1)
            self._trace.__enter__()

    def after_run(self, run_context, run_values):
        if self._is_recording:
            self._trace.__exit__(None, None, None)
            if self._step == self.last:
                self.end(run_context.session)
        self._step += 1

    def end(self, session):
        if self._is_recording:
            tf.profiler.experimental.stop()
            self._is_recording = False
            where = os.path.join(self.model_dir, "plugins", "profile")
            logging.info("the profile of training up to step %d is in %s", min(self._step, self.last), where)
