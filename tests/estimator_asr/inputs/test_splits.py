import dataclasses
import os

import pytest
import small_records
import tensorflow as tf

from estimator_asr.experiment import config, task_spec
from estimator_asr.inputs import buckets, splits
from tfrecord_builder import errors


def test_read_split_joins_directories_and_leaves_out_those_without_it(tmp_path):
    dirs = [str(tmp_path / name) for name in "ab"]
    infos = [small_records.make_data(dirs[0]), small_records.make_data(dirs[1], splits=[("train", 3)])]
    train = splits.read_split(infos, dirs, "train", task_spec.ACOUSTIC)
    assert train.num_utterances == 15 and len(train.shards) == 4 and train.num_bins == 12
    assert train.total_length == sum(n * c for i in infos for n, c in i.splits["train"].frame_lengths.items())
    dev = splits.read_split(infos, dirs, "dev", task_spec.LANGUAGE)
    assert dev.length_counts == {1: 1, 2: 1, 3: 1} and dev.num_bins is None


def test_a_missing_split_is_refused(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path)
    with pytest.raises(errors.UserError, match="'test' does not exist; existing splits: dev, train"):
        splits.read_split([info], [path], "test", task_spec.ACOUSTIC)


def test_a_truncated_shard_is_refused_by_name(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path)
    shard = os.path.join(path, "train-00001-of-00002.tfrecord")
    os.truncate(shard, 100)
    with pytest.raises(
        errors.UserError, match="train-00001-of-00002.tfrecord: shard has 100 bytes, expected"
    ):
        splits.read_split([info], [path], "train", task_spec.ACOUSTIC)


def test_text_is_refused_for_the_acoustic_model(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, with_audio=False)
    with pytest.raises(
        errors.UserError, match="'train' has no audio features, which the acoustic model needs; choose"
    ):
        splits.read_split([info], [path], "train", task_spec.ACOUSTIC)


def test_an_empty_split_is_refused(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", 0)])
    with pytest.raises(errors.UserError, match="has no tokens, which the language model needs; choose"):
        splits.read_split([info], [path], "train", task_spec.LANGUAGE)


def test_features_of_two_types_are_refused(tmp_path):
    dirs = [str(tmp_path / name) for name in "ab"]
    infos = [small_records.make_data(path) for path in dirs]
    infos[1] = dataclasses.replace(infos[1], fbank_dtype="float32")
    with pytest.raises(errors.UserError, match="stored as float16 and float32, expected a single type"):
        splits.read_split(infos, dirs, "train", task_spec.ACOUSTIC)


def test_the_batch_budget_is_that_of_the_model(tmp_path):
    split = splits.Split(task_spec.ACOUSTIC, (), {100: 40}, 1.0, 80, "float16", 3, "")
    settings = config.InputConfig(batch_frames=1000)
    assert split.bucket(settings) == buckets.Bucketing((100,), (10,), 4)

    language = dataclasses.replace(split, spec=task_spec.LANGUAGE)
    assert language.bucket(config.InputConfig(batch_tokens=2000)).batch_sizes == (20,)


def test_the_hash_of_a_split_changes_with_its_shards(tmp_path):
    dirs = [str(tmp_path / name) for name in "ab"]
    infos = [small_records.make_data(path) for path in dirs]
    both = splits.read_split(infos, dirs, "train", task_spec.ACOUSTIC)
    hashes = {
        splits.read_split(infos[:1], dirs[:1], name, task_spec.ACOUSTIC).sha256 for name in ("train", "dev")
    }
    assert len(hashes | {both.sha256}) == 3
    assert splits.read_split(infos[1:], dirs[1:], "train", task_spec.ACOUSTIC).sha256 in hashes
    assert both.max_tokens == 3


@pytest.mark.parametrize(
    "error, sentence",
    [
        (
            tf.errors.DataLossError(None, None, "corrupted record at 12\n\t[[node]]"),
            r"a,b: a shard of split dev is damaged \(corrupted record at 12\); to find the shard, run "
            "python -m tfrecord_builder.verify --data_dir=a,b; then copy or build the data again",
        ),
        (
            tf.errors.DataLossError(
                None,
                None,
                "Graph execution error:\n\nNode: 'Next'\ntruncated record at 7\n\t [[{{node Next}}]]",
            ),
            r"is damaged \(truncated record at 7\); to find",
        ),
        (
            tf.errors.InvalidArgumentError(
                None,
                None,
                "assertion failed: [E_DAMAGED_RECORD: utterance u1: a sentence [1]]\n\t [[{{node Assert}}]]",
            ),
            r"is damaged \(utterance u1: a sentence \[1\]\); to find",
        ),
    ],
)
def test_a_damaged_shard_raises_a_user_error(error, sentence):
    with pytest.raises(errors.UserError, match=sentence), splits.explain_damage(["a", "b"], "dev"):
        raise error


def test_errors_that_are_not_about_the_data_are_unchanged():
    wrong = tf.errors.InvalidArgumentError(None, None, "matrix sizes do not match")
    with pytest.raises(tf.errors.InvalidArgumentError), splits.explain_damage(["a"], "dev"):
        raise wrong
