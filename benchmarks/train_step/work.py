"""The batch that both sides train on, and the operations of a step."""

from __future__ import annotations

import dataclasses

import numpy as np

from estimator_asr.experiment import config as config_lib
from tfrecord_builder.audio import frontend

_NUM_BINS = frontend.FrontendConfig().num_mel_bins


@dataclasses.dataclass(frozen=True)
class Batch:
    """The input of a training step.

    Attributes:
      fbank: float32 [batch, max_frames, num_bins], zero at padding.
      num_frames: int32 [batch].
      token_ids: int32 [batch, max_tokens].
      num_tokens: int32 [batch].
    """

    fbank: np.ndarray
    num_frames: np.ndarray
    token_ids: np.ndarray
    num_tokens: np.ndarray


def make_batch(
    batch_size: int, max_frames: int, num_tokens: int, max_tokens: int, seed: int, num_bins: int = _NUM_BINS
) -> Batch:
    """Samples noise of log-mel's size, utterances of 90 to 100 % of the length, labels without repeats.

    Args:
      batch_size: number of utterances.
      max_frames: number of frames in the longest utterance.
      num_tokens: size of the vocabulary.
      max_tokens: number of labels in the longest utterance.
      seed: random seed.
      num_bins: features per frame.
    """
    rng = np.random.default_rng(seed)
    shortest = -(-9 * max_frames // 10)
    num_frames = rng.integers(shortest, max_frames, batch_size, endpoint=True).astype(np.int32)
    num_frames[0] = max_frames
    fbank = rng.normal(8, 2, [batch_size, max_frames, num_bins]).astype(np.float32)
    fbank *= (np.arange(max_frames) < num_frames[:, None])[..., None]
    steps = rng.integers(1, num_tokens - 1, [batch_size, max_tokens])
    lengths = rng.integers(-(-max_tokens * 3 // 4), max_tokens, batch_size, endpoint=True).astype(np.int32)
    ids = np.cumsum(steps, axis=1) % num_tokens * (np.arange(max_tokens) < lengths[:, None])
    return Batch(fbank, num_frames, ids.astype(np.int32), lengths)


def count_operations(config: config_lib.AcousticConfig, batch: Batch, num_classes: int) -> int:
    """Counts the additions and multiplications of a step in products of matrices and convolutions.

    Each product is made once forwards and twice backwards, towards its inputs and towards its weights. All
    else (normalisation, softmax, Adam) counts as nothing, and padding as work, which it is to both sides.

    Args:
      config: conformer with a decoder.
      batch: batch with the sizes to count.
      num_classes: number of tokens plus the blank.
    """
    batch_size, length, num_bins = batch.fbank.shape
    labels = batch.token_ids.shape[1] + 1
    frames = frontend.num_subsampled_frames(length, factor=4)
    positions, units = batch_size * frames, config.encoder_units
    multiplied = _subsampling(config, batch_size, length, num_bins)
    multiplied += config.encoder_layers * positions * (_block(config) + 2 * frames * units)
    multiplied += positions * units * num_classes
    decoder = 6 * units**2 + 2 * units * config.encoder_inner_units
    multiplied += config.decoder_layers * batch_size * labels * (decoder + 2 * (labels + frames) * units)
    multiplied += config.decoder_layers * positions * 2 * units**2
    multiplied += batch_size * labels * units * num_classes
    return 3 * 2 * multiplied


def _subsampling(config, batch_size, length, num_bins):
    """Multiplications of two 3 x 3 convolutions of stride 2 and the projection behind them."""
    channels, inputs, multiplied = config.subsampling_channels, 1, 0
    for _ in range(2):
        length, num_bins = -(-length // 2), -(-num_bins // 2)
        multiplied += batch_size * length * num_bins * 9 * inputs * channels
        inputs = channels
    return multiplied + batch_size * length * num_bins * channels * config.encoder_units


def _block(config):
    """Multiplications at a position of a conformer block, without those between positions."""
    units = config.encoder_units
    feed_forwards = 2 * 2 * units * config.encoder_inner_units
    attention = 4 * units**2
    return feed_forwards + attention + 3 * units**2 + config.conv_kernel_size * units
