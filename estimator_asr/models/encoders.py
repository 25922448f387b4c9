"""What an encoder is: log-mel frames in, fewer vectors out.

An encoder is a file beside this one and an entry in acoustic.ENCODERS. Convolutions with a stride pad
explicitly (TensorFlow's "SAME" pads by the parity of the padded length), so that neither padding nor its
parity changes a real position; masks keep padding out of convolutions, attention and batch statistics. Frames
of padding may be NaN or Inf: the first convolution gets zeros there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class Encoding(NamedTuple):
    """Output of an encoder."""

    outputs: tf.Tensor  # float32 [batch, num_subsampled, units], zero at padded positions
    num_frames: tf.Tensor  # int32 [batch], subsampled
    mask: tf.Tensor  # float32 [batch, num_subsampled]


class Encoder(NamedTuple):
    """An entry of acoustic.ENCODERS.

    Attributes:
        build: function of AcousticConfig, fbank float32 [batch, num_frames, num_bins], num_frames int32
            [batch] (frames at or beyond it are ignored) and seed (see acoustic.build); returns an Encoding.
        subsampling: input frames for each output frame; num_subsampled is ceil(num_frames / subsampling).
        is_pretrained: reads outputs of config.pretrained, or runs it on its own features; acoustic.build
            normalises the features of the others.
    """

    build: Callable[..., Encoding]
    subsampling: int
    is_pretrained: bool = False
