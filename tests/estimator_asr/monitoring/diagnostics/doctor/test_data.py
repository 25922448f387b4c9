from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
import small_records
import tensorflow as tf

from estimator_asr.experiment import config, experiment, training_config
from estimator_asr.monitoring.diagnostics.doctor import data
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info


def test_complete_data_is_ok_and_lists_utterances_with_least_slack(tmp_path):
    small_records.make_data(str(tmp_path / "data"))
    found = list(data.check(str(tmp_path / "data")))
    assert {finding.level for finding in found} == {"ok"}
    assert found[0].text == "5 tokens of token type syllable"
    size = "train: 12 utterances, 0.00 hours, 24 tokens, 2 shards, each of the expected size"
    assert found[1].text.startswith(size)
    # 16 frames per token and up to 3 more: at least 4 subsampled frames for one token, and 8 for 2.
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


def test_a_truncated_shard_is_refused(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path)
    os.truncate(info.shard_paths(path, "dev")[0], 10)
    with pytest.raises(errors.UserError, match="shard has 10 bytes, expected"):
        list(data.check(path))


def test_a_damaged_record_is_reported_in_one_sentence(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path)
    with open(info.shard_paths(path, "train")[0], "r+b") as file:
        file.seek(40)
        file.write(b"\0\1\2")
    with pytest.raises(errors.UserError, match="a shard of split train is damaged"):
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


@pytest.mark.parametrize("num_shared, is_named", [(1, False), (2, True)])
def test_dev_speakers_that_are_also_in_train_are_a_warning(tmp_path, num_shared, is_named):
    info = small_records.make_data(str(tmp_path / "data"))
    split = dataclasses.replace(info.splits["dev"], num_speakers=2, shared_speakers={"train": num_shared})
    dataclasses.replace(info, splits={**info.splits, "dev": split}).save(str(tmp_path / "data"))
    texts = [finding.text for finding in data.check(str(tmp_path / "data"))]
    assert any(text.startswith("dev: all 2 speakers are also in train, so ") for text in texts) == is_named


@pytest.mark.parametrize("num_in_train, is_advised", [(1, True), (0, False)])
def test_extend_vocabulary_is_advised_only_if_train_has_unknown_tokens(tmp_path, num_in_train, is_advised):
    info = small_records.make_data(str(tmp_path / "data"))
    unknown = {"train": num_in_train, "dev": info.splits["dev"].num_tokens}
    counted = {
        name: dataclasses.replace(info.splits[name], unknown_tokens=count) for name, count in unknown.items()
    }
    dataclasses.replace(info, splits={**info.splits, **counted}).save(str(tmp_path / "data"))
    texts = [finding.text for finding in data.check(str(tmp_path / "data"))]
    (text,) = [each for each in texts if each.startswith("dev: ") and "are unknown" in each]
    assert text.startswith("dev: 100.0 % of the tokens are unknown, ")
    assert ("--extend_vocabulary" in text) == is_advised and ("train lacks them" in text) != is_advised


def test_unknown_tokens_and_shared_sentences_are_warnings(tmp_path):
    split = small_records.make_data(str(tmp_path / "data")).splits["dev"]
    assert isinstance(split, dataset_info.SplitInfo)
    odd = dataclasses.replace(
        split, num_tokens=100, unknown_tokens=3, num_sentences=3, shared_sentences={"train": 2}
    )
    texts = [finding.text for finding in data.judge_split("dev", odd) if finding.level == "warning"]
    assert "3.0 % of the tokens are unknown" in texts[0] and "--extend_vocabulary" in texts[0]
    assert "2 of 3 sentences are also in train" in texts[1]
    texts = [finding.text for finding in data.judge_split("dev", odd, is_extensible=False)]
    assert texts[1] == (
        "dev: 3.0 % of the tokens are unknown, because train lacks them; add recordings or text that contain "
        "them to train, or build with the vocabulary of a larger text (build --corpus=text, then "
        "--vocabulary_dir)"
    )
    fine = dataclasses.replace(odd, unknown_tokens=2, shared_sentences={"train": 1})
    assert [finding.level for finding in data.judge_split("dev", fine)] == ["ok"]
