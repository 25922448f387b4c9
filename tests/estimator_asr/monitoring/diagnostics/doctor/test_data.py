import dataclasses
import os

import numpy as np
import pytest
import small_checkpoints
import small_records
import tensorflow as tf

from estimator_asr.experiment import config, experiment, training_config
from estimator_asr.monitoring.diagnostics.doctor import data
from tfrecord_builder import errors


def test_complete_data_is_ok_and_lists_utterances_with_least_slack(tmp_path):
    small_records.make_data(str(tmp_path / "data"))
    found = list(data.check(str(tmp_path / "data")))
    assert {finding.level for finding in found} == {"ok"}
    assert found[0].text == "5 tokens of token type syllable"
    size = "train: 12 utterances, 0.00 hours, 24 tokens, 2 shards, each of the expected size"
    assert found[1].text.startswith(size)
    # A token has 16 frames, so an utterance of one token has at least 4 frames after subsampling.
    worst = found[-1].text.splitlines()
    assert "12 utterances read" in worst[0] and len(worst) == 4
    assert worst[1].split() == ["4", "frames,", "1", "needed", "train000"]


def test_more_labels_than_frames_are_a_problem():
    slacks = [data.Slack(0.9, "short", 9, 10), data.Slack(4.0, "fine", 40, 10)]
    (finding,) = data.judge_slack("DATA", slacks)
    assert finding.level == "problem"
    assert finding.text.startswith("DATA: 1 utterances have more labels than frames after subsampling")
    assert finding.text.splitlines()[1].split() == ["9", "frames,", "10", "needed", "short"]
    assert list(data.judge_slack("DATA", [])) == []


def test_equal_labels_need_a_frame_between_them():
    slack = data.measure_slack(b"u", 17, 3, np.array([2, 2, 3, 0, 0]), 4)
    assert slack == data.Slack(5 / 4, "u", 5, 4)


@pytest.mark.parametrize(
    "damage, argument, said",
    [
        (os.truncate, 10, "shard has 10 bytes, expected"),
        (small_checkpoints.flip, 40, "a shard of split train is damaged"),
    ],
)
def test_a_damaged_shard_is_refused(tmp_path, damage, argument, said):
    path = str(tmp_path / "data")
    damage(small_records.make_data(path).shard_paths(path, "train")[0], argument)
    with pytest.raises(errors.UserError, match=said):
        list(data.check(path))


def test_remote_data_is_read_with_the_models_shard_cache_limit(tmp_path):
    info = small_records.make_data(str(tmp_path / "data"))
    tf.io.gfile.makedirs("ram://doctor/data")
    for name in os.listdir(tmp_path / "data"):
        tf.io.gfile.copy(str(tmp_path / "data" / name), f"ram://doctor/data/{name}", overwrite=True)
    settings = dict(input=config.InputConfig(shard_cache_gb=1e-9), train=training_config.TrainConfig())
    experiment.ExperimentConfig.for_data(info, **settings).save(str(tmp_path))
    with pytest.raises(errors.UserError, match="--shard_cache_gb is 1e-09, expected .* train with a larger"):
        list(data.check("ram://doctor/data", str(tmp_path)))


@pytest.mark.parametrize(
    "splits, level, said",
    [
        ([("dev", 3)], "problem", "data has no train split; build"),
        ([("train", 3)], "warning", "data has no dev split, so"),
    ],
)
def test_a_missing_train_split_is_a_problem_and_a_missing_dev_split_a_warning(tmp_path, splits, level, said):
    small_records.make_data(str(tmp_path / "data"), splits=splits, with_audio=False)
    finding = list(data.check(str(tmp_path / "data")))[-1]
    assert finding.level == level and said in finding.text


ALL_UNKNOWN = "dev: 100.0 % of the tokens are unknown, "
EXTEND = "and learned as <unk>; build with --extend_vocabulary or without --vocabulary_dir"
LARGER = (
    "because train lacks them; add recordings or text that contain them to train, or build with the "
    "vocabulary of a larger text (build --corpus=text, then --vocabulary_dir)"
)
NUM_TOKENS = 6  # number of tokens in dev
ALL_SHARED = "dev: all 2 speakers are also in train, so error rates on dev say nothing about voices "


@pytest.mark.parametrize(
    "train, dev, said",
    [
        ({}, {"num_speakers": 2, "shared_speakers": {"train": 1}}, None),
        ({}, {"num_speakers": 2, "shared_speakers": {"train": 2}}, ALL_SHARED),
        ({"unknown_tokens": 1}, {"unknown_tokens": NUM_TOKENS}, f"{ALL_UNKNOWN}{EXTEND}"),
        ({}, {"unknown_tokens": NUM_TOKENS}, f"{ALL_UNKNOWN}{LARGER}"),
        ({}, {"num_tokens": 100, "unknown_tokens": 2}, None),
        ({}, {"num_tokens": 100, "unknown_tokens": 3}, f"dev: 3.0 % of the tokens are unknown, {LARGER}"),
        ({}, {"num_sentences": 3, "shared_sentences": {"train": 1}}, None),
        (
            {},
            {"num_sentences": 3, "shared_sentences": {"train": 2}},
            "dev: 2 of 3 sentences are also in train, so error rates on dev say little about new sentences; "
            "see report.html",
        ),
    ],
)
def test_splits_that_mislead_are_warnings(tmp_path, train, dev, said):
    info = small_records.make_data(str(tmp_path / "data"))
    changes = {"train": train, "dev": dev}
    splits = {name: dataclasses.replace(info.splits[name], **changes[name]) for name in changes}
    dataclasses.replace(info, splits=splits).save(str(tmp_path / "data"))
    found = [finding for finding in data.check(str(tmp_path / "data")) if finding.level == "warning"]
    texts = [finding.text for finding in found if finding.text.startswith("dev: ")]
    assert len(texts) == bool(said) and all(text.startswith(said) for text in texts)
