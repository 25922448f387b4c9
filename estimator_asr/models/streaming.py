"""Streaming encoders: chunk-masked attention, convolutions within chunks, and the state between calls.

A frame attends to its chunk and to LEFT_FRAMES frames before the chunk (Zhang et al. 2020, "Unified streaming
and non-streaming two-pass end-to-end model", section 3.2). Convolutions also see earlier frames, but instead
of later frames they see copies of the chunk's last frame (Li et al. 2023, "Dynamic chunk convolution for
unified streaming and non-streaming Conformer ASR", section 3). Training samples chunk sizes, so the same
weights work with any size. While the graph is built, each layer takes its data about earlier frames from a
State and puts back the data for the next call. The State collects these tensors as inputs and outputs.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import layers

LEFT_FRAMES = 64  # attention reaches this many encoder frames (2.56 s) back from a chunk's start
_WHOLE_FRACTION = 0.25  # fraction of training batches that are processed without chunks


class State:
    """Named tensors [batch, ...] that one call passes to the next.

    Attributes:
        inputs, outputs: placeholders for the state before a call, and tensors for the state after the call.
        starts: the state at the start of a recording, without the batch axis.
    """

    def __init__(self):
        self.inputs: dict[str, tf.Tensor] = {}
        self.outputs: dict[str, tf.Tensor] = {}
        self.starts: dict[str, tf.Tensor] = {}

    def take(self, name: str, start: tf.Tensor) -> tf.Tensor:
        """Returns the previous call's value, [batch, *start.shape]; in the first call, this is `start`."""
        name, start = self._full_name(name), tf.convert_to_tensor(start)
        self.starts[name] = start
        self.inputs[name] = tf.compat.v1.placeholder(start.dtype, [None, *start.shape], name)
        return self.inputs[name]

    def put(self, name: str, value: tf.Tensor) -> None:
        """Keeps a value for the next call; call `take` first, with the same name and variable scope."""
        name = self._full_name(name)
        self.outputs[name] = tf.ensure_shape(value, self.inputs[name].shape)

    @staticmethod
    def _full_name(name):
        scope = tf.compat.v1.get_variable_scope().name
        return "_".join(filter(None, ("state", *scope.split("/")[1:], name)))


class Stream(NamedTuple):
    """Settings for processing a batch in chunks of `chunk` encoder frames.

    If `state` is None, the batch holds whole recordings. Otherwise, the batch holds the next frames of each
    recording, which follow the `before` encoder frames (int32 [batch]) of earlier calls. `before` is a
    multiple of `chunk`, and so is the number of new encoder frames, except at the end of a recording.
    """

    chunk: int | tf.Tensor  # int32 []
    before: Optional[tf.Tensor] = None
    state: Optional[State] = None


def sample(seed: tf.Tensor, subsampling: int) -> Stream:
    """Returns a Stream with a random chunk size, for training on whole recordings; seed is int64 [2]."""
    shortest, longest = (frames // subsampling for frames in config_lib.CHUNK_FRAMES)
    first, second = tf.unstack(layers.uniform([2], seed))
    chunk = shortest + tf.cast(second * (longest - shortest + 1), tf.int32)
    return Stream(tf.where(first < _WHOLE_FRACTION, tf.int32.max // 2, chunk))


@dataclasses.dataclass(frozen=True)
class Span:
    """The frames of a batch at one point in an encoder.

    num_frames is int32 [batch], mask float32 [batch, length]. If stream is None, whole recordings are
    processed without chunks.
    """

    num_frames: tf.Tensor
    mask: tf.Tensor
    stream: Optional[Stream] = None

    def extend(self, inputs: tf.Tensor, before: int, after: int) -> tf.Tensor:
        """Extends a convolution's input by frames from earlier calls, if any, and by copies of edge frames.

        Returns:
            float32 [batch, before + length + after, ...] for inputs [batch, length, ...].
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
        """Cuts frames, extended by `width` on each side, into chunks that are extended in the same way.

        Each chunk is followed by copies of its last frame. If there is no stream, all frames form one chunk.

        Returns:
            [batch x chunks, chunk + 2 x width, units] for frames [batch, length + 2 x width, units].
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
        """Joins convolved chunks, [batch x chunks, chunk, units], into frames, [batch, length, units]."""
        if self.stream is None:
            return chunks
        batch, length = tf.unstack(tf.shape(self.mask))
        return tf.reshape(chunks, [batch, -1, chunks.shape[2]])[:, :length]

    def extend_heads(self, keys: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Prepends the keys and values of the previous LEFT_FRAMES frames.

        Returns:
            Keys and values, float32 [batch, heads, LEFT_FRAMES + length, units / heads]. If there is no
            state, the arguments, [batch, heads, length, ...], are returned unchanged.
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
        """Returns a mask for attention.self_attention: 1 for the frames to which each frame attends."""
        if self.stream is None:
            return self.mask
        length, before = tf.shape(self.mask)[1], self.stream.before
        first = 0 if before is None else -LEFT_FRAMES
        keys = tf.range(first, length)
        start = (tf.range(length) // self.stream.chunk * self.stream.chunk)[:, None]
        is_near = (keys >= start - LEFT_FRAMES) & (keys < start + self.stream.chunk)  # [length, num_keys]
        is_real = keys < self.num_frames[:, None]
        if before is not None:
            is_real &= keys >= -before[:, None]
        return tf.cast(is_near & is_real[:, None], tf.float32)


def take_rows(values: tf.Tensor, starts: tf.Tensor, width: int) -> tf.Tensor:
    """Returns `width` rows of [batch, length, ...] from row `starts` (int32 [batch]) on; 0 beyond the end."""
    paddings = [[0, 0], [0, width]] + [[0, 0]] * (values.shape.rank - 2)
    return tf.gather(tf.pad(values, paddings), starts[:, None] + tf.range(width), batch_dims=1)


def append(
    first: tf.Tensor, num_first: tf.Tensor, second: tf.Tensor, num_second: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Appends each sequence in `second` to its counterpart in `first`; both are [batch, length, ...].

    Returns:
        Sequences, [batch, first length + second length, ...], and the number of valid rows in each sequence,
        int32 [batch] like num_first and num_second. All other rows are arbitrary.
    """
    places = tf.range(tf.shape(first)[1] + tf.shape(second)[1])
    beyond = places - num_first[:, None]
    places = tf.where(beyond < 0, places, tf.minimum(beyond, tf.shape(second)[1]) + tf.shape(first)[1])
    padded = tf.pad(tf.concat([first, second], 1), [[0, 0], [0, 1]] + [[0, 0]] * (first.shape.rank - 2))
    return tf.gather(padded, places, batch_dims=1), num_first + num_second
