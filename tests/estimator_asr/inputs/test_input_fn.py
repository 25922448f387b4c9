import zlib

import numpy as np
import pytest
import read_batches
import small_records
import tensorflow as tf

from estimator_asr.experiment import config, task_spec
from estimator_asr.inputs import batches as batches_lib
from estimator_asr.inputs import input_fn, splits
from tfrecord_builder.data import dataset_info

NUM_UTTERANCES = 12
MASKED = read_batches.MASKED
every_model = pytest.mark.parametrize("model", ["acoustic", "language"])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("data") / "data")
    return small_records.make_data(path), path


def read_split(data, model="acoustic"):
    return splits.read_split([data[0]], [data[1]], "train", task_spec.SPECS[model])


def bucketing(data, model="acoustic", num_replicas=1):
    return read_split(data, model).bucket(read_batches.SETTINGS, num_replicas)


def read_records(data, position, model="acoustic", num_replicas=1):
    source = read_split(data, model)
    return input_fn.read_batch(source, source.bucket(MASKED, num_replicas), MASKED, position)


def make_batch(records, data, position, model="acoustic", shard=batches_lib.WHOLE):
    """Makes a batch from records alone, as a replica gets it in training."""
    bins = data[0].frontend.num_bins if model == "acoustic" else None
    source = splits.Split.of_records(task_spec.SPECS[model], bins, "float16")
    return input_fn.batch_of(records, source, MASKED, position, shard)


def identify(batches):
    """Returns the features of each utterance as bytes, in order, to identify the utterances."""
    return [
        fbank[:frames].tobytes()
        for features, _ in batches
        for fbank, frames in zip(features["fbank"], features["num_frames"])
    ]


def assert_equal(left, right):
    """Compares dicts of arrays."""
    assert sorted(left) == sorted(right)
    for key, value in left.items():
        np.testing.assert_array_equal(value, right[key])


@every_model
def test_evaluation_gives_each_utterance_once_in_the_batches_that_were_planned(data, model):
    batches = read_batches.read(data, training=False, model=model)
    names = [name.decode() for features, _ in batches for name in features["utterance_id"]]
    assert sorted(names) == [f"train{i:03d}" for i in range(NUM_UTTERANCES)]
    assert len(batches) == bucketing(data, model).batches_per_epoch


def test_features_and_labels_are_those_of_the_records(data):
    by_name = {record.utterance_id: record for record in small_records.make_records("train", 12)}
    for features, labels in read_batches.read(data, training=False):
        assert sorted(labels) == ["num_tokens", "token_ids"]
        for row, name in enumerate(features["utterance_id"]):
            record = by_name[name.decode()]
            frames, tokens = features["num_frames"][row], features["num_tokens"][row]
            assert (frames, tokens) == (len(record.fbank), len(record.token_ids))
            np.testing.assert_array_equal(features["fbank"][row, :frames], record.fbank)
            assert labels["token_ids"][row, :tokens].tolist() == record.token_ids
            assert features["transcript"][row].decode() == record.transcript


def test_padding_is_zero(data):
    batches = read_batches.read(data, training=False)
    for features, labels in batches:
        for row, (frames, tokens) in enumerate(zip(features["num_frames"], features["num_tokens"])):
            assert not features["fbank"][row, frames:].any()
            assert not labels["token_ids"][row, tokens:].any()
        assert features["fbank"].shape[1] == features["num_frames"].max()
    assert any(len(set(features["num_frames"])) > 1 for features, _ in batches)


def test_no_batch_exceeds_the_frame_budget(data):
    for features, _ in read_batches.read(data, training=False):
        assert features["fbank"].shape[0] * features["fbank"].shape[1] <= read_batches.SETTINGS.batch_frames


def test_epoch_e_of_seed_s_is_epoch_0_of_seed_s_plus_e(data):
    steps = bucketing(data).batches_per_epoch
    second_epoch = read_batches.read(data, 2 * steps, seed=3)[steps:]
    for (features, _), (others, _) in zip(second_epoch, read_batches.read(data, steps, seed=4), strict=True):
        assert_equal(features, others)


def test_the_seed_of_a_batch_has_its_epoch_and_index(data):
    steps = bucketing(data).batches_per_epoch
    seeds = [features["seed"].tolist() for features, _ in read_batches.read(data, steps + 2, seed=5)]
    assert seeds == [[5, index] for index in range(steps)] + [[6, 0], [6, 1]]


@pytest.mark.long
@every_model
@pytest.mark.parametrize("num_replicas", [2, 3])
def test_replicas_take_turns_with_the_rows_of_one_batch(data, model, num_replicas):
    """Each replica's rows equal the rows of the whole batch, except for the amount of padding."""
    options = {"model": model, "settings": MASKED, "num_replicas": num_replicas}
    parts = read_batches.read(data, 5 * num_replicas, **options)
    for index in range(5):
        shards = parts[index * num_replicas : (index + 1) * num_replicas]
        position = shards[0][0]["seed"]
        records = read_records(data, position, model, num_replicas)
        features, labels = make_batch(records, data, position, model)
        for row in range(len(records)):
            part, part_labels = shards[row % num_replicas]
            for key in set(features) - {"seed"}:
                mine, theirs = features[key][row], part[key][row // num_replicas]
                shared = tuple(slice(min(pair)) for pair in zip(np.shape(mine), np.shape(theirs)))
                np.testing.assert_array_equal(mine[shared], theirs[shared])
            assert part["seed"].tolist() == features["seed"].tolist() == list(position)
            assert sorted(part_labels) == sorted(labels)


@pytest.mark.long
@every_model
def test_a_batch_is_reproduced_exactly_from_its_seed(data, model):
    for batch in read_batches.read(data, 9, seed=2, model=model, settings=MASKED)[::4]:
        position = batch[0]["seed"]
        again = make_batch(read_records(data, position, model), data, position, model)
        for left, right in zip(batch, again):
            assert_equal(left, right)


@pytest.mark.long
def test_the_batch_of_a_replica_is_reproduced(data):
    for number, (features, _) in enumerate(
        read_batches.read(data, 6, seed=2, settings=MASKED, num_replicas=2)
    ):
        records = read_records(data, features["seed"], num_replicas=2)
        shard = batches_lib.ReplicaRows(number % 2, 2)
        assert_equal(features, make_batch(records, data, features["seed"], shard=shard)[0])


@pytest.mark.long
def test_read_batch_returns_records_in_the_order_of_the_rows(data):
    ((features, _),) = read_batches.read(data, 1, seed=2)
    examples = map(tf.train.Example.FromString, read_records(data, features["seed"]))
    frames = [example.features.feature["num_frames"].int64_list.value[0] for example in examples]
    assert frames == features["num_frames"].tolist()


def test_a_replica_without_a_row_gets_one_of_length_zero(data):
    parts = read_batches.read(data, 4 * bucketing(data).batches_per_epoch, num_replicas=4)
    assert {len(features["num_frames"]) for features, _ in parts} == {1}
    lengths = [features["num_frames"][0] for features, _ in parts]
    assert sum(length > 0 for length in lengths) == NUM_UTTERANCES and 0 in lengths
    assert all(features["fbank"].shape[1] >= 1 for features, _ in parts)


def test_a_machine_reads_the_parts_of_its_own_replicas(data):
    build = input_fn.build_input_fn(read_split(data), read_batches.SETTINGS, training=True, num_replicas=4)
    context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    own = input_fn.read_elements(lambda: build(input_context=context).take(6))
    parts = read_batches.read(data, 12, num_replicas=4)
    for (features, _), index in zip(own, (2, 3, 6, 7, 10, 11), strict=True):
        assert_equal(features, parts[index][0])


@pytest.mark.long
def test_spec_augment_is_for_training_only_and_can_be_switched_off(data):
    stored = set(identify(read_batches.read(data, training=False)))
    assert set(identify(read_batches.read(data, 6))) <= stored
    assert not set(identify(read_batches.read(data, 6, settings=MASKED))) <= stored
    assert set(identify(read_batches.read(data, training=False, settings=MASKED))) == stored


def test_training_batches_have_no_texts(data):
    ((features, labels),) = read_batches.read(data, 1, model="language")
    assert sorted(features) == ["character_ids", "num_characters", "num_tokens", "seed", "token_ids"]
    assert sorted(labels) == ["character_ids", "num_characters"]


def test_fixed_shapes_pad_frames_to_the_bucket_and_labels_to_16(data):
    plain, fixed = (
        read_batches.read(data, training=False, fixed_shapes=fixed_shapes) for fixed_shapes in (False, True)
    )
    ends = bucketing(data).bucket_ends
    for (features, _), (padded, labels) in zip(plain, fixed):
        frames = features["fbank"].shape[1]
        assert padded["fbank"].shape[1] == min(end for end in ends if end >= frames)
        np.testing.assert_array_equal(padded["fbank"][:, :frames], features["fbank"])
        assert not padded["fbank"][:, frames:].any()
        assert labels["token_ids"].shape[1] == 16


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_with_fixed_shapes_training_has_one_shape_per_bucket(data, num_replicas):
    planned = bucketing(data, num_replicas=num_replicas)
    steps = num_replicas * planned.batches_per_epoch
    shapes = {
        (features["fbank"].shape, features["token_ids"].shape, features["num_frames"].shape)
        for features, _ in read_batches.read(data, steps, fixed_shapes=True, num_replicas=num_replicas)
    }
    sizes = [-(-size // num_replicas) for size in planned.batch_sizes]
    wanted = {((size, end, 12), (size, 16), (size,)) for size, end in zip(sizes, planned.bucket_ends)}
    assert shapes == wanted


def test_fixed_shapes_of_text_are_those_of_the_bucket(data):
    shapes = {
        features["token_ids"].shape[1]
        for features, _ in read_batches.read(data, training=False, model="language", fixed_shapes=True)
    }
    assert shapes == set(bucketing(data, "language").bucket_ends)


def test_elements_are_read_in_order_and_the_caller_keeps_its_graph(graph):
    values = []
    for element in input_fn.read_elements(lambda: tf.data.Dataset.range(3).map(lambda i: {"twice": 2 * i})):
        assert tf.compat.v1.get_default_graph() is graph
        values.append(int(element["twice"]))
    assert values == [0, 2, 4]


def read_sample(data_dir, max_utterances):
    infos = dataset_info.load_all((data_dir,))
    source = splits.read_split(infos, (data_dir,), "test", task_spec.ACOUSTIC)
    return list(input_fn.read_sample(source, config.InputConfig(), max_utterances))


def test_a_sample_has_the_utterances_with_low_hashes(tiny_export):
    names = {
        name for batch in read_sample(tiny_export.data_dir, 4) for name in batch["utterance_id"].tolist()
    }
    assert names == {f"u{i}".encode() for i in range(8) if zlib.crc32(f"u{i}".encode()) < 2**31}
    assert 0 < len(names) < 8


def test_all_features_in_a_row_of_a_sample_belong_to_one_utterance(tiny_export):
    for batch in read_sample(tiny_export.data_dir, 8):
        for name, text in zip(batch["utterance_id"], batch["transcript"]):
            assert tiny_export.utterances[name.decode()][1] == text.decode()
