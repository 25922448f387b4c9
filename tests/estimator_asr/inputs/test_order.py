from __future__ import annotations

import pytest
import small_records
import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr import task_spec
from estimator_asr.inputs import order, splits
from tfrecord_builder import cpu


def read(source, window, seed, graph_seed=None):
    """Lengths and utterance ids of an epoch."""
    config = config_lib.InputConfig(shuffle_records=window)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(graph_seed)
        chunk = tf.compat.v1.data.make_one_shot_iterator(order.read_chunks(source, config, seed)).get_next()
        lengths, records = session.run(chunk)
    ids = [
        tf.train.Example.FromString(r).features.feature["utterance_id"].bytes_list.value[0] for r in records
    ]
    return lengths.tolist(), [name.decode() for name in ids]


def make_source(tmp_path, model="language", count=40, num_shards=4):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", count)], num_shards=num_shards)
    return splits.read_split([info], [path], "train", task_spec.SPECS[model])


def test_without_a_seed_the_shards_come_one_after_the_other(tmp_path):
    lengths, ids = read(make_source(tmp_path, count=6, num_shards=2), 100, None)
    assert ids == [f"train00{i}" for i in (0, 2, 4, 1, 3, 5)]
    assert lengths == [1, 3, 2, 2, 1, 3]  # utterance i has 1 + i % 3 tokens


def test_every_order_is_a_permutation_and_shards_are_mixed(tmp_path):
    source = make_source(tmp_path)
    orders = [read(source, 10, seed)[1] for seed in (1, 2, 3)]
    assert all(sorted(ids) == [f"train{i:03d}" for i in range(40)] for ids in orders)
    assert len(set(map(tuple, orders))) == 3
    for ids in orders:  # record i is in shard i % 4, its speaker S(i % 2): the first ten are of all
        assert {int(name[-3:]) % 4 for name in ids[:10]} == {0, 1, 2, 3}
    assert read(source, 10, 1)[1] == orders[0]


def test_the_seed_of_the_graph_which_an_estimator_sets_changes_nothing(tmp_path):
    source = make_source(tmp_path)
    assert read(source, 10, 1, graph_seed=7) == read(source, 10, 1)


@pytest.mark.parametrize("num_cores, num_threads", [(1, 2), (2, 2), (8, 8), (96, 16)])
def test_every_core_that_the_process_may_use_reads_within_bounds(monkeypatch, num_cores, num_threads):
    monkeypatch.setattr(cpu, "count_cores", lambda: num_cores)
    assert order.count_threads() == num_threads


@pytest.mark.parametrize("num_cores", [1, 8])
def test_the_order_does_not_depend_on_the_cores(tmp_path, monkeypatch, num_cores):
    """Written down when one thread read: a run that continues must find the rest of its epoch."""
    monkeypatch.setattr(cpu, "count_cores", lambda: num_cores)
    source = make_source(tmp_path, count=23, num_shards=5)  # files of 5, 5, 5, 4 and 4 records
    numbers = [int(name[-3:]) for name in read(source, 4, 1)[1]]
    assert numbers[:12] == [3, 1, 2, 7, 0, 5, 8, 9, 14, 4, 12, 11]
    assert numbers[12:] == [13, 10, 19, 18, 16, 17, 20, 6, 22, 21, 15]
