"""Summary values for TensorBoard that are made outside a graph: images, audio and text."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import tensorflow as tf

Value = tf.compat.v1.Summary.Value


def write_values(directory: str, values: Sequence[Value], step: int) -> None:
    """Writes values beside those that an Estimator writes into the directory."""
    writer = tf.compat.v1.summary.FileWriterCache.get(directory)
    writer.add_summary(tf.compat.v1.Summary(value=values), step)
    writer.flush()


def image_value(tag: str, png: bytes) -> Value:
    """Returns a picture for the IMAGES tab."""
    width, height = struct.unpack(">II", png[16:24])  # the first chunk, PNG specification 11.2.2
    image = tf.compat.v1.Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
    return Value(tag=tag, image=image)


def audio_value(tag: str, wav: bytes, sample_rate: int) -> Value:
    """Returns the sound of a mono WAV file of 16 bits per sample for the AUDIO tab."""
    sound = tf.compat.v1.Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=(len(wav) - 44) // 2,  # a header of 44 bytes, then two bytes per sample
        encoded_audio_string=wav,
        content_type="audio/wav",
    )
    return Value(tag=tag, audio=sound)


def text_value(tag: str, markdown: str) -> Value:
    """Returns Markdown for the TEXT tab."""
    plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="text")
    metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin)
    return Value(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(markdown, tf.string))
