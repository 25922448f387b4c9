from __future__ import annotations

import dataclasses
import time

import pytest
import small_records
import tensorflow as tf

from estimator_asr import experiment, model_directory, training_config
from estimator_asr.diagnostics import label_checks
from estimator_asr.models import losses
from tfrecord_builder import errors


def make(tmp_path, model="acoustic", **options):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, with_audio=model == "acoustic", **options)
    settings = experiment.ExperimentConfig.for_data(info, train=training_config.TrainConfig(model=model))
    return [info], [path], model_directory.create_or_check(str(tmp_path / "model"), settings, path)


@pytest.mark.parametrize("model", ["acoustic", "language"])
def test_a_sample_of_right_data_passes_in_no_time(tmp_path, model):
    made = make(tmp_path, model)
    label_checks.check(*made)
    started = time.monotonic()
    label_checks.check(*made)
    assert time.monotonic() - started < 1


def replace(record, name, ids):
    return dataclasses.replace(record, **{name: ids})


def shift(record, by=1):
    return replace(record, "token_ids", [each + by for each in record.token_ids])


@pytest.mark.parametrize("split", ["train", "dev"])
def test_wrong_labels_of_a_split_are_refused_with_shard_and_utterance(tmp_path, split):
    made = make(tmp_path, change=lambda each: shift(each) if each.utterance_id.startswith(split) else each)
    said = rf"{split}-00000-of-00002.tfrecord: utterance {split}000: token_ids are shifted by \+1: .*; build"
    with pytest.raises(errors.UserError, match=said):
        label_checks.check(*made)


def test_a_language_model_is_checked_in_characters(tmp_path):
    def change(record):
        return replace(record, "character_ids", [each + 1 for each in record.character_ids])

    with pytest.raises(errors.UserError, match=r"character_ids are shifted by \+1"):
        label_checks.check(*make(tmp_path, "language", change=change))


def test_the_sample_is_a_hundred_records_from_all_over_the_split(tmp_path, monkeypatch):
    infos, dirs, model = make(tmp_path, splits=[("train", 400)], num_shards=20)
    seen = []
    monkeypatch.setattr(
        label_checks.label_forms, "find_problem", lambda serialized, *_: seen.append(serialized)
    )
    label_checks.check(infos, dirs, model)
    ids = [
        tf.train.Example.FromString(each).features.feature["utterance_id"].bytes_list.value for each in seen
    ]
    # Shards 0, 2, 4 ... 18 of 20; record i lies in shard i % 20.
    assert len(seen) == 100 and {int(name.removeprefix(b"train")) % 20 for (name,) in ids} == {
        *range(0, 20, 2)
    }


def test_a_damaged_shard_is_named(tmp_path):
    infos, dirs, model = make(tmp_path)
    path = tmp_path / "data" / "train-00000-of-00002.tfrecord"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match="a shard of split train or dev is damaged"):
        label_checks.check(infos, dirs, model)


def fail(*said):
    """What a step raises whose labels are wrong."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        session.run(losses.check_labels(tf.constant([said]), tf.constant([len(said)]), 5))


def test_a_step_that_fails_names_the_utterance_wherever_it_is(tmp_path):
    def change(record):
        return shift(record, 5) if record.utterance_id == "train011" else record

    infos, dirs, model = make(tmp_path, change=change)
    said = r"train-00001-of-00002.tfrecord: utterance train011: token_ids hold \d, expected 0 to 4"
    with pytest.raises(errors.UserError, match=said), label_checks.explain(infos, dirs, model):
        fail(1, 7)


def test_a_step_that_fails_over_right_records_says_what_it_had(tmp_path):
    with pytest.raises(errors.UserError, match=r"data: .*\[label out of range:\] \[1\] \[to\] \[7\]"):
        with label_checks.explain(*make(tmp_path)):
            fail(1, 7)


def test_other_errors_of_a_step_are_left_alone(tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="something else"):
        with label_checks.explain(*make(tmp_path)):
            raise tf.errors.InvalidArgumentError(None, None, "something else")
