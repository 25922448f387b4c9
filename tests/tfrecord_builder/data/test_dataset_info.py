import dataclasses
import json

import pytest

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import config_json

SHARD = dataset_info.ShardInfo("dev-00000-of-00001.tfrecord", num_records=2, num_bytes=5, sha256="ab")
DEV = dataset_info.SplitInfo(
    num_utterances=2,
    num_speakers=1,
    seconds=1800.0,
    num_tokens=7,
    num_characters=7,
    unknown_tokens=1,
    unknown_characters=0,
    frame_lengths={98: 1, 120: 1},
    token_lengths={3: 1, 4: 1},
    shards=(SHARD,),
)
INFO = dataset_info.DatasetInfo(
    frontend=frontend.FrontendConfig(num_mel_bins=40),
    fbank_dtype="float16",
    token_type="syllable",
    tokens_sha256="t",
    characters_sha256="c",
    readings_sha256="r",
    feature_mean=(1.0, 2.5),
    feature_stddev=(0.5, 1.0),
    splits={"dev": DEV},
    num_rejected=3,
)


VALUES = config_json.to_json_dict(INFO)


def _load_text(directory, text):
    """Returns the problem that is reported if dataset_info.json contains the text."""
    path = directory / "dataset_info.json"
    path.write_text(text)
    with pytest.raises(errors.UserError) as raised:
        dataset_info.DatasetInfo.load(str(directory))
    return str(raised.value).removeprefix(f"{path}: ")


def test_save_and_load_round_trip(tmp_path):
    INFO.save(str(tmp_path))
    assert dataset_info.DatasetInfo.load(str(tmp_path)) == INFO and DEV.hours == 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["dataset_info.json"]


def test_the_file_has_an_indented_line_per_value_with_readable_hanzi(tmp_path):
    dataclasses.replace(INFO, splits={"测试": DEV}).save(str(tmp_path))
    text = (tmp_path / "dataset_info.json").read_text(encoding="utf-8")
    assert '\n "fbank_dtype": "float16",\n' in text and '\n  "测试": {\n' in text


def test_duplicate_data_directories_are_refused(tmp_path):
    INFO.save(str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path)
    assert dataset_info.load_all([str(tmp_path)]) == [INFO]
    with pytest.raises(errors.UserError, match=r"--data_dir has duplicates \(.*/link\); pass each"):
        dataset_info.load_all([str(tmp_path), str(tmp_path / "link")])


def test_text_only_data_has_no_frontend(tmp_path):
    info = dataclasses.replace(INFO, frontend=None, feature_mean=(), feature_stddev=())
    info.save(str(tmp_path))
    assert dataset_info.DatasetInfo.load(str(tmp_path)) == info


@pytest.mark.parametrize("file", ["../dev.tfrecord", "/data/dev.tfrecord", "a/b", "", "a\0b", "\ud800"])
def test_a_shard_outside_the_directory_is_refused(tmp_path, file):
    problem = _load_text(tmp_path, json.dumps(VALUES).replace(json.dumps(SHARD.file), json.dumps(file)))
    assert problem == f"shard is {file!r}, expected a file name without a directory"


@pytest.mark.parametrize("name", ["feature_mean", "feature_stddev"])
@pytest.mark.parametrize("value, shown", [("NaN", "nan"), ("-Infinity", "-inf"), ("1e999", "inf")])
def test_a_non_finite_mean_or_stddev_is_refused(tmp_path, name, value, shown):
    text = json.dumps({**VALUES, name: ["VALUE", 1.0]}).replace('"VALUE"', value)
    assert _load_text(tmp_path, text) == f"DatasetInfo.{name} is {shown}, expected a finite number"


def test_load_names_a_missing_directory_or_file(tmp_path):
    with pytest.raises(errors.UserError, match="nowhere: data directory does not exist; build it first"):
        dataset_info.DatasetInfo.load(str(tmp_path / "nowhere"))
    with pytest.raises(errors.UserError, match="dataset_info.json is missing, so the data is incomplete"):
        dataset_info.DatasetInfo.load(str(tmp_path))


def _other(**changes):
    return json.dumps({**VALUES, **changes})


@pytest.mark.parametrize(
    "text, problem",
    [
        (json.dumps(VALUES)[:100], "dataset_info.json is not valid JSON ("),
        ('{"a":' * 100_000, "dataset_info.json is not valid JSON (it is nested too deeply"),
        (_other(fbank_dtype="foat16"), "fbank_dtype is 'foat16', expected one of float16, float32"),
        (_other(token_type="foat16"), "token_type is 'foat16', expected one of syllable, toneless, "),
        (_other(fbank_type="int8"), "DatasetInfo: unknown key fbank_type"),
        (_other(splits={"dev": {}}), "DatasetInfo.splits.dev: key frame_lengths, num_characters, "),
    ],
)
def test_load_refuses_invalid_json_and_other_versions(tmp_path, text, problem):
    assert problem in _load_text(tmp_path, text)


def test_shard_paths_of_missing_and_truncated_shards(tmp_path):
    path = tmp_path / SHARD.file
    with pytest.raises(errors.UserError, match="00001.tfrecord: shard is missing; build the data again"):
        INFO.shard_paths(str(tmp_path), "dev")
    path.write_bytes(b"12345")
    assert INFO.shard_paths(str(tmp_path), "dev") == [str(path)]
    path.write_bytes(b"123")
    message = "00001.tfrecord: shard has 3 bytes, expected 5; copy or build"
    with pytest.raises(errors.UserError, match=message):
        INFO.shard_paths(str(tmp_path), "dev")


def test_a_missing_split_is_refused(tmp_path):
    info = dataclasses.replace(INFO, splits={"train": DEV, "dev": DEV})
    with pytest.raises(errors.UserError, match="'test' does not exist; existing splits: dev, train"):
        info.shard_paths(str(tmp_path), "test")
