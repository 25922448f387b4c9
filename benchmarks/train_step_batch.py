"""The batch that both sides train on: noise of the size of log-mel, and labels that fit."""

from __future__ import annotations

import dataclasses

import numpy as np

from tfrecord_builder import frontend


@dataclasses.dataclass(frozen=True)
class Batch:
    """What a training step gets.

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


def make_batch(batch_size: int, max_frames: int, num_tokens: int, max_tokens: int, seed: int) -> Batch:
    """Draws noise of log-mel's size, utterances of 90 to 100 % of the length, labels without repeats.

    Args:
      batch_size: utterances.
      max_frames: of the longest utterance.
      num_tokens: size of the vocabulary.
      max_tokens: labels of the longest utterance.
      seed: of all that is drawn.
    """
    rng = np.random.default_rng(seed)
    num_bins = frontend.FrontendConfig().num_mel_bins
    num_frames = rng.integers(-(-9 * max_frames // 10), max_frames, batch_size, endpoint=True).astype(np.int32)
    num_frames[0] = max_frames
    fbank = rng.normal(8, 2, [batch_size, max_frames, num_bins]).astype(np.float32)
    fbank *= (np.arange(max_frames) < num_frames[:, None])[..., None]
    steps = rng.integers(1, num_tokens - 1, [batch_size, max_tokens])
    lengths = rng.integers(-(-max_tokens * 3 // 4), max_tokens, batch_size, endpoint=True).astype(np.int32)
    ids = np.cumsum(steps, axis=1) % num_tokens * (np.arange(max_tokens) < lengths[:, None])
    return Batch(fbank, num_frames, ids.astype(np.int32), lengths)
