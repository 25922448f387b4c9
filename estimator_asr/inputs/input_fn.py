"""TFRecords to the batches that a model_fn takes.

    shards -> records -> (shuffle) -> examples -> batches of one length bucket -> (skip) -> (mask) ->
    features, labels

One epoch after the other: epoch e shuffles with seed + e and ends with its small last batches, so it has the
same number of batches whatever the order. Each utterance comes exactly once an epoch. Padding is zero, and ""
for text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.inputs import spec_augment, splits
from tfrecord_builder import dataset_info, schema

_LENGTH = {"acoustic": "num_frames", "language": "num_tokens"}
_LABELS = {"acoustic": ("token_ids", "num_tokens"), "language": ("character_ids", "num_characters")}
_TEXT = ("utterance_id", "speaker", "transcript", "pronunciation")
_SHARDS_READ_AT_ONCE = 16
_LABEL_MULTIPLE = 16
# The training step owns the cores; reading takes a small part of one.
_NUM_THREADS = 2


def build_input_fn(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    split: str,
    config: config_lib.InputConfig,
    *,
    model: str,
    training: bool,
    seed: int = 0,
    first_step: int = 0,
    num_replicas: int = 1,
    fixed_shapes: bool = False,
) -> Callable[[], tf.data.Dataset]:
    """Returns the input_fn of an Estimator.

    Args:
        infos, data_dirs: what to read, of one vocabulary and frontend.
        split: name of the split; directories without it are left out.
        config: batch budget, shuffling and masking.
        model: "acoustic" or "language".
        training: epochs without end, shuffled and masked; else one epoch in the order of the shards, with the
            texts (utterance_id, speaker, transcript, pronunciation) among the features.
        seed: epoch e uses seed + e.
        first_step: steps to leave out at the start, for a run that continues.
        num_replicas: a step takes a batch for each of them; the budget is divided by it.
        fixed_shapes: pad frames to the longest of the bucket and labels to a multiple of 16, so that there
            are few shapes (for XLA).

    Returns:
        Function that gives a dataset of (features, labels). features: dict of token_ids int32 [batch,
        max_tokens], num_tokens int32 [batch], character_ids, num_characters likewise, and for the acoustic
        model fbank float32 [batch, max_frames, num_bins], num_frames int32 [batch]. labels: dict of the ids
        to learn and their number.

    Raises:
        errors.UserError: the split is not there, or a shard is missing or truncated.
    """
    source = splits.read_split(infos, data_dirs, split, model)
    plan = splits.plan_batches(source, config, num_replicas)
    first_epoch, position = divmod(first_step * num_replicas, plan.batches_per_epoch)

    is_masked = training and config.spec_augment and model == "acoustic"

    def read_epoch(epoch):
        examples = _read_examples(source, config, seed + epoch if training else None)
        return _batch(examples, model, plan).enumerate().map(lambda index, batch: (epoch, index, batch))

    def finish(epoch, index, batch):
        batch_seed = tf.stack([seed + epoch, index])
        batch = {**batch, "seed": batch_seed} if training else batch
        batch = _mask(batch, config, batch_seed) if is_masked else batch
        batch = _pad_to_fixed_shapes(batch, model, plan) if fixed_shapes else batch
        return batch, {key: batch[key] for key in _LABELS[model]}

    def input_fn():
        epochs = tf.data.Dataset.range(first_epoch, tf.int64.max if training else 1)
        batches = epochs.flat_map(read_epoch).skip(position)
        batches = batches.map(finish, num_parallel_calls=_NUM_THREADS, deterministic=True)
        return batches.prefetch(4).with_options(_options())

    return input_fn


def _read_examples(source, config, seed):
    """Parsed examples with what the model takes; texts only without a seed, as a GPU cannot hold them."""
    dropped = {"duration_ms", *(() if seed is None else _TEXT)}
    records = _read_records(source, config, seed)
    examples = schema.parse_examples(records, source.num_bins, source.fbank_dtype)
    return examples.map(lambda example: {key: value for key, value in example.items() if key not in dropped})


def _read_records(source, config, seed):
    """Serialised records, shuffled over shards and within a window of records if there is a seed."""
    files = tf.data.Dataset.from_tensor_slices(list(source.paths))
    if seed is None:
        return files.flat_map(tf.data.TFRecordDataset)
    files = files.shuffle(len(source.paths), seed, reshuffle_each_iteration=False)
    cycle_length = min(len(source.paths), _SHARDS_READ_AT_ONCE)
    records = files.interleave(tf.data.TFRecordDataset, cycle_length, block_length=1)
    return records.shuffle(config.shuffle_records, seed, reshuffle_each_iteration=False)


def _batch(examples, model, plan):
    return examples.bucket_by_sequence_length(
        lambda example: example[_LENGTH[model]],
        bucket_boundaries=[end + 1 for end in plan.bucket_ends],
        bucket_batch_sizes=[*plan.batch_sizes, 1],  # nothing is longer than the last bucket
    )


def _mask(batch, config, seed):
    return {**batch, "fbank": spec_augment.mask_features(batch["fbank"], batch["num_frames"], config, seed)}


@tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would not know the widths when it compiles
def _pad_to_fixed_shapes(batch, model, plan):
    """Rounds the lengths of a batch up; the additional cells are zero."""
    ends = tf.constant(plan.bucket_ends)
    length = tf.reduce_max(batch[_LENGTH[model]])
    bucket_end = tf.reduce_min(tf.boolean_mask(ends, ends >= length))
    padded = dict(batch)
    for key in {"fbank", "token_ids", "character_ids"} & set(batch):
        now = tf.shape(batch[key])[1]
        is_bucketed = key == "fbank" or model == "language"
        wanted = bucket_end if is_bucketed else -(-now // _LABEL_MULTIPLE) * _LABEL_MULTIPLE
        rest = [[0, 0]] * (batch[key].shape.rank - 2)
        padded[key] = tf.pad(batch[key], [[0, 0], [0, tf.maximum(wanted - now, 0)], *rest])
    return padded


def _options():
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = _NUM_THREADS
    options.threading.max_intra_op_parallelism = 1
    return options
