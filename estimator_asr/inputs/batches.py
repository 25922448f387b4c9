"""The records of a batch to what the model_fn takes, for one replica's part of it.

Replica p of n takes rows p, p + n, p + 2n ... of the batch. One without any (of a small last batch) gets a
row of length 0, which no loss or statistic counts.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.inputs import order, spec_augment, splits
from tfrecord_builder import schema

LABELS = {"acoustic": ("token_ids", "num_tokens"), "language": ("character_ids", "num_characters")}
_TEXT = ("utterance_id", "speaker", "transcript", "pronunciation")
_LABEL_MULTIPLE = 16


class Part(NamedTuple):
    """Which rows of a batch; the values may be tensors."""

    number: int  # from 0
    count: int

    def of(self, rows: tf.Tensor) -> tf.Tensor:
        return rows[self.number :: self.count]


WHOLE = Part(0, 1)


def finish(
    records: tf.Tensor,
    position: tf.Tensor,
    part: Part,
    source: splits.Split,
    config: config_lib.InputConfig,
    *,
    training: bool,
) -> dict[str, tf.Tensor]:
    """Parses, masks and pads one part of a batch.

    Args:
        records: string [batch], serialised.
        position: int64 [2], seed + epoch and index in the epoch: the seed of all that is random.
        part: which rows.
        source: what the records hold.
        config: of the masks.
        training: whether features are masked and `seed` given; else the texts are.

    Returns:
        The features of input_fn.build_input_fn.
    """
    batch = schema.parse_batch(part.of(records), source.num_bins, source.fbank_dtype)
    dropped = {"duration_ms", *(_TEXT if training else ())}  # a GPU cannot hold texts
    batch = {key: value for key, value in batch.items() if key not in dropped}
    if training and config.spec_augment and source.model == "acoustic":
        draws = spec_augment.draw(config, tf.size(records), position)
        draws = spec_augment.Draws(*map(part.of, draws))
        batch["fbank"] = spec_augment.mask_features(batch["fbank"], batch["num_frames"], config, draws)
    if not training:
        return batch
    return {**_at_least_one_row(batch), "seed": position}


def _at_least_one_row(batch):
    missing = tf.maximum(1 - tf.shape(batch["num_tokens"])[0], 0)
    return {key: _pad(value, [missing] * min(value.shape.rank, 2)) for key, value in batch.items()}


def pad_to_fixed_shapes(
    batch: dict[str, tf.Tensor], plan: splits.BatchPlan, source: splits.Split, num_parts: int
) -> dict[str, tf.Tensor]:
    """Pads a part to one of as many shapes as there are buckets (for XLA).

    Frames (tokens of text) become as many as the bucket's longest, labels as many as the longest of the split
    rounded up to 16, and in training rows as many as the largest part of a full batch; they have length 0.
    """
    bucket = tf.searchsorted(tf.constant(plan.bucket_ends), batch[order.LENGTH_KEYS[source.model]][:1])[0]
    end, size = tf.gather(plan.bucket_ends, bucket), tf.gather(plan.batch_sizes, bucket)
    if source.model == "acoustic":
        num_labels = -(-source.max_tokens // _LABEL_MULTIPLE) * _LABEL_MULTIPLE
        widths = {"fbank": end, "token_ids": num_labels, "character_ids": num_labels}
    else:
        widths = {"token_ids": end, "character_ids": end}
    rows = -(-size // num_parts) if "seed" in batch else 0
    return {
        key: value if key == "seed" else _pad_up_to(value, [rows, *([widths[key]] if key in widths else [])])
        for key, value in batch.items()
    }


def _pad_up_to(value, shape):
    if value.dtype == tf.string:
        return value
    sizes = tf.unstack(tf.shape(value)[: len(shape)])
    return _pad(value, [tf.maximum(wanted - size, 0) for wanted, size in zip(shape, sizes)])


def _pad(value, missing):
    """Adds so many zeros behind the first axes."""
    rest = [[0, 0]] * (value.shape.rank - len(missing))
    return tf.pad(value, [*([0, number] for number in missing), *rest])
