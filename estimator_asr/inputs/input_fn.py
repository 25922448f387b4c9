"""TFRecords to the batches that a model_fn takes.

    shards -> records in the epoch's order -> batches of one length bucket -> (skip) -> a part for each
    replica -> parsed, (masked), padded -> features, labels

One epoch after the other: epoch e shuffles with seed + e and ends with its small last batches, so it has the
same number of batches whatever the order. Each utterance comes exactly once an epoch. Padding is zero, and ""
for text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.inputs import batches, input_progress, order, splits
from tfrecord_builder import dataset_info

BEGINNING = input_progress.Position(0, (), 0)


def build_input_fn(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    split: str,
    config: config_lib.InputConfig,
    *,
    model: str,
    training: bool,
    seed: int = 0,
    start: input_progress.Position = BEGINNING,
    num_replicas: int = 1,
    fixed_shapes: bool = False,
) -> Callable[..., tf.data.Dataset]:
    """Returns the input_fn of an Estimator.

    Args:
        infos, data_dirs: what to read, of one vocabulary and frontend.
        split: name of the split; directories without it are left out.
        config: batch budget, shuffling and masking.
        model: "acoustic" or "language".
        training: epochs without end, shuffled and masked; else one epoch in the order of the shards, with the
            texts (utterance_id, speaker, transcript, pronunciation) among the features.
        seed: epoch e uses seed + e.
        start: where to begin, for a run that continues.
        num_replicas: of all machines together; each batch is dealt out among them, and the dataset holds one
            part after the other. A machine (tf.distribute.InputContext) gets those of its replicas.
        fixed_shapes: pad to one shape a bucket (for XLA).

    Returns:
        Function that gives a dataset of (features, labels). features: dict of token_ids int32 [batch,
        max_tokens], num_tokens int32 [batch], character_ids, num_characters likewise, in training seed int64
        [2] (seed + epoch, index of the batch in the epoch), and for the acoustic model fbank float32 [batch,
        max_frames, num_bins], num_frames int32 [batch]. labels: dict of the ids to learn and their number.

    Raises:
        errors.UserError: the split is not there, or a shard is missing or truncated.
    """
    source = splits.read_split(infos, data_dirs, split, model)
    plan = splits.plan_batches(source, config)

    def finish(position, part, records):
        part = batches.Part(part, num_replicas)
        features = batches.finish(records, position, part, source, config, training=training)
        if fixed_shapes:
            features = batches.pad_to_fixed_shapes(features, plan, source, num_replicas)
        return features, {key: features[key] for key in batches.LABELS[model]}

    @tf.autograph.experimental.do_not_convert  # nothing to convert, and to look takes a second
    def read(input_context):
        if training:
            epochs = _read_epochs(source, plan, config, seed, start)
        else:
            epochs = read_epoch(source, plan, config, None)
        parts = tf.data.Dataset.from_tensor_slices(_own_parts(num_replicas, input_context))
        dealt = epochs.flat_map(lambda position, records: parts.map(lambda part: (position, part, records)))
        finished = dealt.map(finish, num_parallel_calls=order.count_threads(), deterministic=True)
        return finished.prefetch(4).with_options(_options())

    def input_fn(input_context: Optional[tf.distribute.InputContext] = None):
        return read(input_context)  # the Estimator looks at the names of its arguments

    return input_fn


def read_epoch(
    source: splits.Split,
    plan: splits.BatchPlan,
    config: config_lib.InputConfig,
    seed: Optional[int],
    first_index: int = 0,
    taken: Sequence[input_progress.Taken] = (),
) -> tf.data.Dataset:
    """Returns the batches of an epoch as a dataset of (position int64 [2], records string [batch]).

    Args:
        source: what to read.
        plan: which lengths share a batch, and how many utterances it has.
        config: of the shuffling.
        seed: of the order, seed + epoch; None: the order of the shards.
        first_index: number of the first batch.
        taken: what earlier plans took of the epoch; the rest is read.
    """
    chunks = order.read_chunks(source, config.shuffle_records, seed)
    if taken:
        lengths = order.read_lengths(source, config.shuffle_records, seed)
        chunks = _leave_out(chunks, input_progress.left_over(lengths, taken))

    def to_buckets(places, lengths, records):
        return tf.searchsorted(tf.constant(plan.bucket_ends), lengths, out_type=tf.int64), records

    batched = (
        chunks.map(to_buckets)
        .unbatch()
        .group_by_window(
            lambda bucket, record: bucket,
            lambda bucket, window: window.map(lambda _, record: record).batch(max(plan.batch_sizes)),
            window_size_func=lambda bucket: tf.gather(tf.constant(plan.batch_sizes, tf.int64), bucket),
        )
    )
    epoch_seed = tf.cast(0 if seed is None else seed, tf.int64)
    return batched.enumerate(first_index).map(lambda index, records: (tf.stack([epoch_seed, index]), records))


def _leave_out(chunks, is_left):
    is_left = tf.constant(is_left)

    def choose(places, *values):
        chosen = tf.gather(is_left, places)
        return (tf.boolean_mask(places, chosen), *(tf.boolean_mask(value, chosen) for value in values))

    return chunks.map(choose)


def _own_parts(num_replicas, input_context):
    """Numbers of the parts that this machine's replicas take."""
    if input_context is None:
        return list(range(num_replicas))
    count = num_replicas // input_context.num_input_pipelines
    return list(range(input_context.input_pipeline_id * count, (input_context.input_pipeline_id + 1) * count))


def _read_epochs(source, plan, config, seed, start):
    """Batches (position int64 [2], records string [batch]) from `start` on, without end."""
    first = read_epoch(source, plan, config, seed + start.epoch, start.index - start.made, start.taken)
    later = tf.data.Dataset.range(start.epoch + 1, tf.int64.max)
    return first.skip(start.made).concatenate(
        later.flat_map(lambda epoch: read_epoch(source, plan, config, seed + epoch))
    )


def _options():
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = order.count_threads()
    options.threading.max_intra_op_parallelism = 1
    return options
