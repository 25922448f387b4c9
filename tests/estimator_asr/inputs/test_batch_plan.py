import numpy as np
import pytest
import small_records
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import task_spec
from estimator_asr.inputs import batch_plan, buckets, input_fn, input_progress, record_index, splits
from tfrecord_builder.data import schema
from tfrecord_builder.program import cpu


def plan(source, config, bucketing, seed, start=input_progress.START, graph_seed=None, training=True):
    """Returns (position, records) for each batch from `start` to the end of the epoch."""
    index = record_index.load(source, config)
    reader = record_index.RecordReader(source, index, config)

    def build():
        tf.compat.v1.set_random_seed(graph_seed)
        batches = batch_plan.plan_batches(index, bucketing, config, seed, start, training)
        left = batches.take(bucketing.batches_per_epoch - start.index)
        return left.map(lambda position, numbers: (position, reader.read(numbers)))

    return [(tuple(position), list(records)) for position, records in input_fn.read_elements(build)]


def name(record):
    return schema.utterance_id(record)


def read(source, window, seed, graph_seed=None):
    """Returns an epoch's utterance ids in order; batches of one utterance from one bucket keep the order."""
    alone = buckets.Bucketing((10,), (1,), source.num_utterances)
    config = config_lib.InputConfig(shuffle_records=window)
    return [name(record) for _, (record,) in plan(source, config, alone, seed, graph_seed=graph_seed)]


def read_former(source, config, bucketing, seed):
    """Returns the batches of an epoch as earlier versions made them, which read whole records.

    Training shuffled the records with the seed; evaluation, which has no seed, took them in shard order.
    """

    def find_bucket(record):
        return np.searchsorted(bucketing.bucket_ends, schema.count(record, source.spec.length_key))

    def with_bucket(record):
        return tf.ensure_shape(tf.numpy_function(find_bucket, [record], tf.int64), []), record

    def build():
        sizes, count = tf.constant(bucketing.batch_sizes, tf.int64), len(source.shards)
        paths = tf.data.Dataset.from_tensor_slices([shard.path for shard in source.shards])
        if seed is None:
            records = paths.flat_map(tf.data.TFRecordDataset)
        else:
            paths = paths.shuffle(count, seed, reshuffle_each_iteration=False)
            records = paths.interleave(tf.data.TFRecordDataset, min(count, 16), block_length=1)
            records = records.shuffle(config.shuffle_records, seed, reshuffle_each_iteration=False)
        return records.map(with_bucket).group_by_window(
            lambda bucket, _: bucket,
            lambda _, window: window.map(lambda _, record: record).batch(1000),
            window_size_func=lambda bucket: sizes[bucket],
        )

    return [list(records) for records in input_fn.read_elements(build)]


def make_source(tmp_path, model="language", count=40, num_shards=4):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", count)], num_shards=num_shards)
    return splits.read_split([info], [path], "train", task_spec.SPECS[model])


def test_evaluation_takes_the_shards_one_after_the_other(tmp_path):
    source = make_source(tmp_path, count=6, num_shards=2)
    alone = buckets.Bucketing((10,), (1,), 6)
    planned = plan(source, config_lib.InputConfig(), alone, 0, training=False)
    assert [name(record) for _, (record,) in planned] == [f"train00{i}" for i in (0, 2, 4, 1, 3, 5)]


def test_a_batch_comes_when_it_is_full_and_small_ones_come_last():
    bucketing = buckets.Bucketing((2, 9, 20), (2, 3, 2), 5)
    lengths = np.array([9, 1, 20, 3, 2, 1, 5, 7], np.int32)
    rows, begins, ends = batch_plan.cut(bucketing, lengths)
    batches = [rows[begin:end].tolist() for begin, end in zip(begins, ends)]
    # Record 4 fills a batch of up to 2, record 6 one of up to 9; then the rest, bucket by bucket.
    assert batches == [[1, 4], [0, 3, 6], [5], [7], [2]]


def test_every_order_is_a_permutation_and_shards_are_mixed(tmp_path):
    source = make_source(tmp_path)
    orders = [read(source, 10, seed) for seed in (1, 2, 3)]
    assert all(sorted(ids) == [f"train{i:03d}" for i in range(40)] for ids in orders)
    assert len(set(map(tuple, orders))) == 3
    for ids in orders:  # record i is in shard i % 4: the first ten records come from all shards
        assert {int(name[-3:]) % 4 for name in ids[:10]} == {0, 1, 2, 3}
    assert read(source, 10, 1) == orders[0]


def test_the_seed_of_the_graph_which_an_estimator_sets_changes_nothing(tmp_path):
    source = make_source(tmp_path)
    assert read(source, 10, 1, graph_seed=7) == read(source, 10, 1)


@pytest.mark.parametrize("num_shards", [1, 5, 40])
@pytest.mark.parametrize("seed", [None, 0, 3])
def test_the_batches_are_those_of_earlier_versions(tmp_path, num_shards, seed):
    """So a run that an earlier version started can continue in the middle of an epoch."""
    source = make_source(tmp_path, count=97, num_shards=num_shards)
    config = config_lib.InputConfig(batch_tokens=9, num_buckets=3, shuffle_records=11)
    bucketing = source.bucket(config)
    planned = plan(source, config, bucketing, seed or 0, training=seed is not None)
    assert len(planned) == bucketing.batches_per_epoch == 4 + 8 + 11  # 33, 32, 32 in batches of 9, 4, 3
    assert [records for _, records in planned] == read_former(source, config, bucketing, seed)
    assert [position for position, _ in planned] == [(seed or 0, i) for i in range(len(planned))]


@pytest.mark.parametrize("index", [0, 1, 11, 22])
def test_a_run_resumes_at_any_batch(tmp_path, index):
    source = make_source(tmp_path, count=97, num_shards=20)
    config = config_lib.InputConfig(batch_tokens=9, num_buckets=3, shuffle_records=11)
    whole = plan(source, config, source.bucket(config), 5)
    rest = plan(source, config, source.bucket(config), 5, input_progress.InputPosition(0, index))
    assert rest == whole[index:]


@pytest.mark.parametrize("num_cores, num_threads", [(1, 2), (2, 2), (8, 8), (96, 16)])
def test_there_is_a_thread_per_core_within_bounds(monkeypatch, num_cores, num_threads):
    monkeypatch.setattr(cpu, "count_cores", lambda: num_cores)
    assert input_fn.count_threads() == num_threads


@pytest.mark.parametrize("num_cores", [1, 8])
def test_the_order_does_not_depend_on_the_cores(tmp_path, monkeypatch, num_cores):
    """The order was recorded with one reading thread; a resumed run must read the rest of its epoch."""
    monkeypatch.setattr(cpu, "count_cores", lambda: num_cores)
    source = make_source(tmp_path, count=23, num_shards=5)  # files of 5, 5, 5, 4 and 4 records
    numbers = [int(name[-3:]) for name in read(source, 4, 1)]
    assert numbers[:12] == [3, 1, 2, 7, 0, 5, 8, 9, 14, 4, 12, 11]
    assert numbers[12:] == [13, 10, 19, 18, 16, 17, 20, 6, 22, 21, 15]
