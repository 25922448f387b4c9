from __future__ import annotations

import numpy as np
import pytest
import small_records
import tensorflow as tf
from read_batches import MASKED, read

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import batches, input_fn, splits


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("data") / "data")
    return small_records.make_data(path), path


def read_again(data, position, model, num_replicas=1):
    info, path = data
    source = splits.read_split([info], [path], "train", task_spec.SPECS[model])
    return input_fn.read_batch(source, source.bucket(MASKED, num_replicas), MASKED, position)


def make_again(records, data, position, model, shard=batches.WHOLE):
    bins = data[0].frontend.num_bins if model == "acoustic" else None
    source = splits.Split.of_records(task_spec.SPECS[model], bins, "float16")
    return input_fn.batch_of(records, source, MASKED, position, shard)


def assert_same(left, right):
    assert sorted(left) == sorted(right)
    for key, value in left.items():
        np.testing.assert_array_equal(value, right[key])


@pytest.mark.long
@pytest.mark.parametrize("model", ["acoustic", "language"])
def test_read_batch_reproduces_a_batch_exactly_from_its_seed(data, model):
    for features, labels in read(data, 9, seed=2, model=model, settings=MASKED)[::4]:
        again = make_again(read_again(data, features["seed"], model), data, features["seed"], model)
        assert_same(features, again[0])
        assert_same(labels, again[1])


@pytest.mark.long
def test_batch_of_reproduces_the_batch_of_a_replica(data):
    parts = read(data, 6, seed=2, settings=MASKED, num_replicas=2)
    for number, (features, _) in enumerate(parts):
        records = read_again(data, features["seed"], "acoustic", num_replicas=2)
        shard = batches.ReplicaRows(number % 2, 2)
        assert_same(features, make_again(records, data, features["seed"], "acoustic", shard)[0])


@pytest.mark.long
def test_read_batch_returns_records_in_the_order_of_the_rows(data):
    (first,) = read(data, 1, seed=2)
    examples = [tf.train.Example.FromString(r) for r in read_again(data, first[0]["seed"], "acoustic")]
    frames = [example.features.feature["num_frames"].int64_list.value[0] for example in examples]
    assert frames == first[0]["num_frames"].tolist()


def test_elements_are_read_in_order_and_the_caller_keeps_its_graph():
    graph = tf.Graph()
    with graph.as_default():
        elements = input_fn.read_elements(lambda: tf.data.Dataset.range(3).map(lambda i: {"twice": 2 * i}))
        values = []
        for element in elements:
            assert tf.compat.v1.get_default_graph() is graph
            values.append(int(element["twice"]))
    assert values == [0, 2, 4]
