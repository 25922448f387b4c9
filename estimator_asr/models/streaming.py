"""Streaming encoders: chunk-masked attention, convolutions within chunks, and their state.

Attention hears the frames of the same chunk and LEFT_FRAMES before it (Zhang et al. 2020, "Unified streaming
and non-streaming two-pass end-to-end model", section 3.2), and so do convolutions, which hear copies of its
last frame after it (Li et al. 2023, "Dynamic chunk convolution for unified streaming and non-streaming
Conformer ASR", section 3). Chunk sizes are sampled in training, so one set of weights runs in any of them.
A layer takes what it needs of earlier frames from a State, and puts back what the next call needs: inputs and
outputs of the graph are found while it is built.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import layers

LEFT_FRAMES = 64  # frames of the encoder before a chunk that attention hears: 2.56 seconds
_WHOLE_FRACTION = 0.25  # of the batches in training that are heard without chunks


class State:
    """Named tensors [batch, ...] that one call hands to the next.

    Attributes:
        inputs, outputs: placeholders, and their values after the call.
        starts: values of a new recording, without the axis of the batch.
    """

    def __init__(self):
        self.inputs: dict[str, tf.Tensor] = {}
        self.outputs: dict[str, tf.Tensor] = {}
        self.starts: dict[str, tf.Tensor] = {}

    def take(self, name: str, start: tf.Tensor) -> tf.Tensor:
        """Returns what the call before has put, [batch, *start.shape]; in the first call `start`."""
        name, start = self._full_name(name), tf.convert_to_tensor(start)
        self.starts[name] = start
        self.inputs[name] = tf.compat.v1.placeholder(start.dtype, [None, *start.shape], name)
        return self.inputs[name]

    def put(self, name: str, value: tf.Tensor) -> None:
        """Keeps a value for the next call, under the name by which it was taken in the same scope."""
        name = self._full_name(name)
        self.outputs[name] = tf.ensure_shape(value, self.inputs[name].shape)

    @staticmethod
    def _full_name(name):
        scope = tf.compat.v1.get_variable_scope().name
        return "_".join(filter(None, ("state", *scope.split("/")[1:], name)))


class Stream(NamedTuple):
    """How a batch is heard: in chunks of `chunk` frames of the encoder.

    Without a state these are whole recordings. With one they are what follows `before` frames, int32
    [batch], a multiple of `chunk`; and their number is a multiple of it too, unless the recording ends.
    """

    chunk: int | tf.Tensor  # int32 []
    before: Optional[tf.Tensor] = None
    state: Optional[State] = None


def sample(seed: tf.Tensor, subsampling: int) -> Stream:
    """Returns how a batch of whole recordings is heard in training; seed is that of the batch."""
    shortest, longest = (frames // subsampling for frames in config_lib.CHUNK_FRAMES)
    first, second = tf.unstack(layers.uniform([2], seed))
    chunk = shortest + tf.cast(second * (longest - shortest + 1), tf.int32)
    return Stream(tf.where(first < _WHOLE_FRACTION, tf.int32.max // 2, chunk))


@dataclasses.dataclass(frozen=True)
class Span:
    """The frames of a batch at one place of an encoder.

    num_frames: int32 [batch]; mask: float32 [batch, length]; stream: None: whole recordings, all of which is
    heard.
    """

    num_frames: tf.Tensor
    mask: tf.Tensor
    stream: Optional[Stream] = None

    def extend(self, inputs: tf.Tensor, before: int, after: int) -> tf.Tensor:
        """Extends frames for a convolution, by those before and by copies of the edges.

        Returns:
            float32 [batch, before + length + after, ...] of [batch, length, ...].
        """
        padded = layers.replicate_edges(inputs, self.mask, before, after)
        if not (self.stream and self.stream.state and before):
            return padded
        cached = self.stream.state.take("frames", tf.zeros([before, *inputs.shape[2:]]))
        is_first = tf.reshape(tf.equal(self.stream.before, 0), [-1] + [1] * (inputs.shape.rank - 1))
        first = tf.where(is_first, padded[:, :before], cached)
        padded = tf.concat([first, padded[:, before:]], axis=1)
        self.stream.state.put("frames", take_rows(padded, self.num_frames, before))
        return padded

    def cut(self, extended: tf.Tensor, width: int) -> tf.Tensor:
        """Cuts frames, extended by `width` on each side, into chunks that are extended likewise.

        What comes after a chunk are copies of its last frame. Without a stream there is one chunk.

        Returns:
            [batch x chunks, chunk + 2 x width, units] of [batch, length + 2 x width, units].
        """
        if self.stream is None:
            return extended
        length = tf.shape(self.mask)[1]
        size = tf.minimum(self.stream.chunk, length)
        starts = tf.range(0, length, size)[:, None]
        places = starts + tf.minimum(tf.range(size + 2 * width), size + width - 1)
        chunks = tf.gather(extended, tf.minimum(places, length + width - 1), axis=1)
        return tf.reshape(chunks, [-1, size + 2 * width, extended.shape[2]])

    def join(self, chunks: tf.Tensor) -> tf.Tensor:
        """Returns [batch, length, units] of convolved chunks, [batch x chunks, chunk, units]."""
        if self.stream is None:
            return chunks
        batch, length = tf.unstack(tf.shape(self.mask))
        return tf.reshape(chunks, [batch, -1, chunks.shape[2]])[:, :length]

    def extend_heads(self, keys: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Puts those of the frames before in front of keys and values.

        Returns:
            float32 [batch, heads, LEFT_FRAMES + length, units / heads] of [batch, heads, length, ...]; what
            they were without a state.
        """
        if not (self.stream and self.stream.state):
            return keys, values
        heads, units = keys.shape[1], keys.shape[3]
        start = tf.zeros([2, heads, LEFT_FRAMES, units])
        both = tf.concat([self.stream.state.take("heads", start), tf.stack([keys, values], 1)], axis=3)
        places = self.num_frames[:, None] + tf.range(LEFT_FRAMES)
        self.stream.state.put("heads", tf.gather(both, places, axis=3, batch_dims=1))
        return both[:, 0], both[:, 1]

    def attention_mask(self) -> tf.Tensor:
        """Returns which frames each frame attends to: a mask as attention.self_attention takes them."""
        if self.stream is None:
            return self.mask
        length, before = tf.shape(self.mask)[1], self.stream.before
        first = 0 if before is None else -LEFT_FRAMES
        heard = tf.range(first, length)
        start = (tf.range(length) // self.stream.chunk * self.stream.chunk)[:, None]
        is_near = (heard >= start - LEFT_FRAMES) & (heard < start + self.stream.chunk)  # [length, heard]
        is_real = heard < self.num_frames[:, None]
        if before is not None:
            is_real &= heard >= -before[:, None]
        return tf.cast(is_near & is_real[:, None], tf.float32)


def take_rows(values: tf.Tensor, starts: tf.Tensor, width: int) -> tf.Tensor:
    """Returns `width` values of [batch, length, ...] from starts, int32 [batch], on; zeros beyond the end."""
    paddings = [[0, 0], [0, width]] + [[0, 0]] * (values.shape.rank - 2)
    return tf.gather(tf.pad(values, paddings), starts[:, None] + tf.range(width), batch_dims=1)


def append(
    first: tf.Tensor, num_first: tf.Tensor, second: tf.Tensor, num_second: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Joins two batches of sequences, [batch, length, ...] of which the first num (int32 [batch]) count.

    Returns:
        [batch, sum of both lengths, ...], anything at or beyond the second, int32 [batch].
    """
    places = tf.range(tf.shape(first)[1] + tf.shape(second)[1])
    beyond = places - num_first[:, None]
    places = tf.where(beyond < 0, places, tf.minimum(beyond, tf.shape(second)[1]) + tf.shape(first)[1])
    padded = tf.pad(tf.concat([first, second], 1), [[0, 0], [0, 1]] + [[0, 0]] * (first.shape.rank - 2))
    return tf.gather(padded, places, batch_dims=1), num_first + num_second
