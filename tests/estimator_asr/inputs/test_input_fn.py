from __future__ import annotations

import numpy as np
import pytest
import read_batches
import small_records
import tensorflow as tf

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import input_fn, splits

NUM_UTTERANCES = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("data") / "data")
    return small_records.make_data(path), path


def bucketing(data, model="acoustic", num_replicas=1):
    source = splits.read_split([data[0]], [data[1]], "train", task_spec.SPECS[model])
    return source.bucket(read_batches.SETTINGS, num_replicas)


def read_whole(data, num_batches, model, num_replicas):
    """Returns the batches planned for num_replicas, each unsharded, exactly as one replica would get them."""
    info, path = data
    source = splits.read_split([info], [path], "train", task_spec.SPECS[model])
    planned = source.bucket(read_batches.MASKED, num_replicas)
    batches = []
    for index in range(num_batches):
        position = divmod(index, planned.batches_per_epoch)
        records = input_fn.read_batch(source, planned, read_batches.MASKED, position)
        batches.append(input_fn.batch_of(records, source, read_batches.MASKED, position))
    return batches


def steps_per_epoch(data, model="acoustic"):
    return bucketing(data, model).batches_per_epoch


def identify(batches):
    """Returns the features of each utterance as bytes, in order, to identify the utterances."""
    return [
        fbank[:frames].tobytes()
        for features, _ in batches
        for fbank, frames in zip(features["fbank"], features["num_frames"])
    ]


def assert_equal(left, right):
    assert len(left) == len(right)
    for (features, _), (others, _) in zip(left, right):
        for key, value in features.items():
            np.testing.assert_array_equal(value, others[key])


@pytest.mark.parametrize("model", ["acoustic", "language"])
def test_evaluation_gives_each_utterance_once_in_the_batches_that_were_planned(data, model):
    batches = read_batches.read(data, training=False, model=model)
    names = [name.decode() for features, _ in batches for name in features["utterance_id"]]
    assert sorted(names) == [f"train{i:03d}" for i in range(NUM_UTTERANCES)]
    assert len(batches) == steps_per_epoch(data, model)


def test_features_and_labels_are_those_of_the_records(data):
    records = small_records.make_records("train", 12)
    by_name = {record.utterance_id: record for record in records}
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
    padded = 0
    for features, labels in read_batches.read(data, training=False):
        for row, (frames, tokens) in enumerate(zip(features["num_frames"], features["num_tokens"])):
            assert not features["fbank"][row, frames:].any()
            assert not labels["token_ids"][row, tokens:].any()
            padded += features["fbank"].shape[1] - frames
        assert features["fbank"].shape[1] == features["num_frames"].max()
    assert padded > 0  # there was something to look at


def test_no_batch_exceeds_the_frame_budget(data):
    for features, _ in read_batches.read(data, training=False):
        assert features["fbank"].shape[0] * features["fbank"].shape[1] <= read_batches.SETTINGS.batch_frames


def test_epoch_e_of_seed_s_is_epoch_0_of_seed_s_plus_e(data):
    steps = steps_per_epoch(data)
    assert_equal(read_batches.read(data, 2 * steps, seed=3)[steps:], read_batches.read(data, steps, seed=4))


def test_the_seed_of_a_batch_has_its_epoch_and_index(data):
    steps = steps_per_epoch(data)
    seeds = [features["seed"].tolist() for features, _ in read_batches.read(data, steps + 2, seed=5)]
    assert seeds == [[5, index] for index in range(steps)] + [[6, 0], [6, 1]]


@pytest.mark.long
@pytest.mark.parametrize("model", ["acoustic", "language"])
def test_replicas_take_turns_with_the_rows_of_one_batch(data, model):
    for number in (2, 3):
        whole = read_whole(data, 5, model, number)
        parts = read_batches.read(
            data, 5 * number, model=model, settings=read_batches.MASKED, num_replicas=number
        )
        for index, (features, labels) in enumerate(whole):
            of_batch = parts[index * number : (index + 1) * number]
            for row in range(len(features["num_tokens"])):
                part, part_labels = of_batch[row % number]
                for key in set(features) - {"seed"}:
                    mine, theirs = features[key][row], part[key][row // number]
                    shared = tuple(slice(min(pair)) for pair in zip(np.shape(mine), np.shape(theirs)))
                    np.testing.assert_array_equal(mine[shared], theirs[shared])
                assert part["seed"].tolist() == features["seed"].tolist()
                assert sorted(part_labels) == sorted(labels)


def test_a_replica_without_a_row_gets_one_of_length_zero(data):
    parts = read_batches.read(data, 4 * steps_per_epoch(data), num_replicas=4)
    assert {len(features["num_frames"]) for features, _ in parts} == {1}
    lengths = [features["num_frames"][0] for features, _ in parts]
    assert sum(length > 0 for length in lengths) == NUM_UTTERANCES and 0 in lengths
    assert all(features["fbank"].shape[1] >= 1 for features, _ in parts)


def test_a_machine_reads_the_parts_of_its_own_replicas(data):
    info, path = data
    source = splits.read_split([info], [path], "train", task_spec.ACOUSTIC)
    build = input_fn.build_input_fn(source, read_batches.SETTINGS, training=True, num_replicas=4)
    context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features, _ = tf.compat.v1.data.make_one_shot_iterator(build(input_context=context)).get_next()
        own = [session.run(features) for _ in range(6)]
    parts = read_batches.read(data, 12, num_replicas=4)
    wanted = [parts[i] for i in (2, 3, 6, 7, 10, 11)]
    assert_equal([(features, None) for features in own], wanted)


@pytest.mark.long
def test_spec_augment_is_for_training_only_and_can_be_switched_off(data):
    stored = set(identify(read_batches.read(data, training=False)))
    assert set(identify(read_batches.read(data, 6))) <= stored
    assert not set(identify(read_batches.read(data, 6, settings=read_batches.MASKED))) <= stored
    assert set(identify(read_batches.read(data, training=False, settings=read_batches.MASKED))) == stored


def test_training_batches_have_no_texts(data):
    ((features, labels),) = read_batches.read(data, 1, model="language")
    assert sorted(features) == ["character_ids", "num_characters", "num_tokens", "seed", "token_ids"]
    assert sorted(labels) == ["character_ids", "num_characters"]


def test_fixed_shapes_pad_frames_to_the_bucket_and_labels_to_16(data):
    plain, fixed = (
        read_batches.read(data, training=False),
        read_batches.read(data, training=False, fixed_shapes=True),
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
