"""Compares our masks with tensorflow-io's on one pinned core: time per batch, and fraction masked.

    python -m benchmarks.spec_augment

Both are timed in turns in each round; the times are medians.
"""

import functools
import os
import statistics
import sys

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np
import tensorflow as tf

try:
    import tensorflow_io as tfio
except ImportError:
    sys.exit("spec_augment: the peer tensorflow-io is not installed; run with CPython 3.10 or 3.11")

from benchmarks import bars, comparison
from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import batches

BATCH, FRAMES, BINS = 16, 500, 80
_ROUNDS = 100
_CONFIG = config_lib.InputConfig()


def ours(fbank: tf.Tensor, num_frames: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    draws = batches.draw_masks(_CONFIG, BATCH, seed)
    return batches.mask_features(fbank, num_frames, _CONFIG, draws)


def theirs(fbank: tf.Tensor, num_frames: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Applies as many masks of the same width to one utterance at a time, without lengths or a seed."""
    del num_frames, seed

    def mask(utterance):
        for _ in range(_CONFIG.time_masks):
            utterance = tfio.audio.time_mask(utterance, _CONFIG.time_mask_frames)
        for _ in range(_CONFIG.frequency_masks):
            utterance = tfio.audio.freq_mask(utterance, _CONFIG.frequency_mask_bins)
        return utterance

    return tf.map_fn(mask, fbank)


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tf.compat.v1.disable_eager_execution()
    rng = np.random.default_rng(1)
    num_frames = rng.integers(FRAMES // 2, FRAMES, BATCH).astype(np.int32)
    is_frame = np.arange(FRAMES)[:, None] < num_frames[:, None, None]
    values = rng.normal(10, 3, [BATCH, FRAMES, BINS]).astype(np.float32) * is_frame
    fbank, seed = tf.compat.v1.placeholder(tf.float32, values.shape), tf.constant([1, 2], tf.int64)
    masks = {mask.__name__: mask(fbank, tf.constant(num_frames), seed) for mask in (ours, theirs)}
    with tf.compat.v1.Session() as session:
        loops = {
            name: functools.partial(session.make_callable(mask, [fbank]), values)
            for name, mask in masks.items()
        }
        seconds = comparison.time_in_turns(loops, _ROUNDS)
        for name, run in loops.items():
            _describe(name, statistics.median(seconds[name]), values, run(), run())
    print(f"theirs takes {bars.ratio(seconds['theirs'], seconds['ours']):.1f} times as long")


def _describe(name, seconds, values, once, twice):
    hidden = once != values
    share, by = hidden[values != 0].mean(), "a mean" if once[hidden].any() else "0"
    print(
        f"{name}: {1000 * seconds:.2f} ms for {BATCH} x {FRAMES} x {BINS}, {share:.1%} masked by {by}, "
        f"the same again: {np.array_equal(once, twice)}"
    )


if __name__ == "__main__":
    main()
