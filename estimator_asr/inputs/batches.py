"""Parses, masks and pads one replica's rows of a batch.

Replica r of n gets rows r, r + n, r + 2n ... of the batch. If a small last batch has no rows for a replica,
the replica gets one row of length 0, which losses and statistics ignore.

The masks follow SpecAugment (Park et al. 2019) without time warping: time and frequency masks, filled with
the mean. The masks depend only on the seed, not on the thread that computes them.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import buckets, splits
from tfrecord_builder.data import schema

_TEXT = ("utterance_id", "speaker", "transcript", "pronunciation", "written")
_LABEL_MULTIPLE = 16


class ReplicaRows(NamedTuple):
    """One replica's share of a batch's rows; the fields may be tensors."""

    number: int  # index of the replica
    count: int  # number of replicas

    def of(self, rows: tf.Tensor) -> tf.Tensor:
        return rows[self.number :: self.count]


WHOLE = ReplicaRows(0, 1)


def finish(
    records: tf.Tensor,
    position: tf.Tensor,
    shard: ReplicaRows,
    num_rows: tf.Tensor,
    source: splits.Split,
    config: config_lib.InputConfig,
    *,
    training: bool,
) -> dict[str, tf.Tensor]:
    """Parses, masks and pads a per-replica batch, and returns its features (see input_fn.build_input_fn).

    Args:
        records: string [batch], serialised records for this replica.
        position: int64 [2], seed + epoch and the batch's index in the epoch; also the batch's random seed.
        shard: the replica's rows in the whole batch.
        num_rows: int32 [], number of rows in the whole batch.
        training: if True, masks the features, adds the feature `seed`, and leaves out the texts.
    """
    batch = schema.parse_batch(records, source.num_bins, source.fbank_dtype, source.has_marks)
    batch.pop("duration_ms", None)
    if not training:
        return batch
    batch = {key: value for key, value in batch.items() if key not in _TEXT}  # a GPU cannot hold strings
    if config.spec_augment and source.spec.reads_audio:
        draws = draw_masks(config, num_rows, position)
        draws = MaskDraws(*map(shard.of, draws))
        batch["fbank"] = mask_features(batch["fbank"], batch["num_frames"], config, draws)
    missing = tf.maximum(1 - tf.shape(batch["num_tokens"])[0], 0)
    batch = {key: _pad(value, [missing] * min(value.shape.rank, 2)) for key, value in batch.items()}
    return {**batch, "seed": position}


def pad_to_fixed_shapes(
    batch: dict[str, tf.Tensor], bucketing: buckets.Bucketing, source: splits.Split, num_replicas: int
) -> dict[str, tf.Tensor]:
    """Pads a per-replica batch to a shape that is the same for all batches from its bucket (for XLA).

    Frames (for text: tokens and characters) are padded to the bucket's maximum length. Labels for audio are
    padded to the split's maximum length, rounded up to a multiple of 16. In training, rows of length 0 are
    added until there are as many rows as a replica can get from a full batch.
    """
    length = batch[source.spec.length_key][:1]
    bucket = tf.searchsorted(tf.constant(bucketing.bucket_ends), length)[0]
    end, size = tf.gather(bucketing.bucket_ends, bucket), tf.gather(bucketing.batch_sizes, bucket)
    if source.spec.reads_audio:
        num_labels = -(-source.max_tokens // _LABEL_MULTIPLE) * _LABEL_MULTIPLE
        widths = {"fbank": end, "token_ids": num_labels, "character_ids": num_labels}
    else:
        widths = {"token_ids": end, "character_ids": end, "mark_ids": end}
    rows = -(-size // num_replicas) if "seed" in batch else 0
    padded = dict(batch)
    for key, value in batch.items():
        if key != "seed" and value.dtype != tf.string:
            shape = [rows, widths[key]] if key in widths else [rows]
            sizes = tf.unstack(tf.shape(value)[: len(shape)])
            padded[key] = _pad(value, [tf.maximum(new - old, 0) for new, old in zip(shape, sizes)])
    return padded


def _pad(value, missing):
    """Appends missing[i] zeros along axis i; the remaining axes are not padded."""
    unpadded = [[0, 0]] * (value.shape.rank - len(missing))
    return tf.pad(value, [*([0, number] for number in missing), *unpadded])


class MaskDraws(NamedTuple):
    """Random numbers for each mask's width and start, uniform in [0, 1), float32 [batch, num_masks, 2]."""

    time: tf.Tensor
    frequency: tf.Tensor


def draw_masks(config: config_lib.InputConfig, batch_size: tf.Tensor, seed: tf.Tensor) -> MaskDraws:
    """Samples random numbers for the masks of a batch; `seed` is int64 [2]."""

    def sample(count, seed):  # names the algorithm, because XLA's default is different
        return tf.random.stateless_uniform([batch_size, count, 2], seed, alg="philox")

    return MaskDraws(sample(config.time_masks, seed), sample(config.frequency_masks, seed + 1))


def mask_features(
    fbank: tf.Tensor, num_frames: tf.Tensor, config: config_lib.InputConfig, draws: MaskDraws
) -> tf.Tensor:
    """Returns `fbank` with each masked value replaced by the mean of its bin over the utterance.

    `fbank` is float32 [batch, max_frames, num_bins]; frames from num_frames (int32 [batch]) on are unchanged.
    """
    batch, frames, bins = tf.unstack(tf.shape(fbank))
    fraction = config.time_mask_fraction / max(1, config.time_masks)
    most = tf.cast(fraction * tf.cast(num_frames, tf.float32), tf.int32)
    widest_time = tf.minimum(config.time_mask_frames, most)
    widest_frequency = tf.fill([batch], tf.minimum(config.frequency_mask_bins, bins))
    in_time = merge_masks(draws.time, widest_time, num_frames, frames)
    in_frequency = merge_masks(draws.frequency, widest_frequency, tf.fill([batch], bins), bins)
    masked = in_time[:, :, None] | in_frequency[:, None, :]
    is_frame = tf.sequence_mask(num_frames, frames)[:, :, None]
    count = tf.reduce_sum(tf.cast(is_frame, tf.float32), axis=1, keepdims=True)
    total = tf.reduce_sum(tf.where(is_frame, fbank, 0.0), axis=1, keepdims=True)
    return tf.where(masked & is_frame, tf.math.divide_no_nan(total, count), fbank)


def merge_masks(draws: tf.Tensor, widest: tf.Tensor, limit: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Returns the union of each utterance's masks, bool [batch, length].

    Each mask is 0 to `widest` positions wide and lies within the first `limit` positions. `widest` and
    `limit` are int32 [batch], and `draws` is float32 [batch, num_masks, 2].
    """
    width = tf.cast(draws[..., 0] * tf.cast(widest + 1, tf.float32)[:, None], tf.int32)
    start = tf.cast(draws[..., 1] * tf.cast(limit[:, None] - width + 1, tf.float32), tf.int32)
    cell = tf.range(length)[None, None, :]
    inside = (cell >= start[:, :, None]) & (cell < (start + width)[:, :, None])  # [batch, num_masks, length]
    return tf.reduce_any(inside, axis=1)
