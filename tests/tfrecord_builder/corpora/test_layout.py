import functools
import os

import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout


def test_require(tmp_path):
    (tmp_path / "wav").mkdir()
    small_corpora.write_text(tmp_path / "text", "")
    layout.require(str(tmp_path), ("wav", "text"), "NAME", "pass it")
    message = f"^{tmp_path}: found no train or dev, but NAME has wav, train and dev; pass it.$"
    with pytest.raises(errors.UserError, match=message):
        layout.require(str(tmp_path), ("wav", "train", "dev"), "NAME", "pass it")


def test_recordings_in_order_without_hidden_ones(tmp_path):
    for name in ("b/2.wav", "a/1.WAV", "a/._1.wav", "a/1.txt"):
        small_corpora.write_text(tmp_path / name, "")
    found = [os.path.relpath(path, tmp_path) for path in layout.find_recordings(str(tmp_path), ".wav")]
    assert found == ["a/1.WAV", "b/2.wav"]


def test_recording_id():
    assert layout.recording_id("/x/y.z/BAC009S0002W0122.wav") == "BAC009S0002W0122"
    assert layout.recording_id(os.path.join("x", os.fsdecode("你".encode("gbk")) + ".wav")) == r"\xc4\xe3"


@pytest.mark.parametrize(
    ("path", "resolved"),
    [("wav/a.wav", "/in/wav/a.wav"), ("/x/a.wav", "/x/a.wav"), ("s3://x/a.wav", "s3://x/a.wav")],
)
def test_resolve(path, resolved):
    assert layout.resolve("/in", path) == resolved


def test_a_path_with_backslashes(tmp_path):
    for name in ("音频/a.wav", "odd\\b.wav"):
        small_corpora.write_text(tmp_path / name, "")
    resolve = functools.partial(layout.resolve, str(tmp_path))
    assert resolve("音频\\a.wav") == str(tmp_path / "音频" / "a.wav")
    assert resolve(".\\音频\\missing.wav") == f"{tmp_path}/./音频/missing.wav"
    assert resolve("odd\\b.wav") == str(tmp_path / "odd\\b.wav")  # a file with this name exists
    small_corpora.write_text(tmp_path / "lists" / "train.tsv", "")
    assert layout.resolve(str(tmp_path / "lists"), "音频\\a.wav") == str(tmp_path / "音频" / "a.wav")


def test_a_path_relative_to_where_the_recipe_ran(tmp_path):
    directory = tmp_path / "egs" / "data" / "train"
    for name in ("data/wav/a.wav", "egs/data/wav/a.wav", "egs/download/b.wav", "c.wav"):
        small_corpora.write_text(tmp_path / name, "")
    resolve = functools.partial(layout.resolve, str(directory))
    assert resolve("data/wav/a.wav") == str(tmp_path / "egs" / "data" / "wav" / "a.wav")  # the nearest
    assert resolve("download/b.wav") == str(tmp_path / "egs" / "download" / "b.wav")
    assert resolve("download/c.wav") == str(directory / "download" / "c.wav")
    assert resolve("c.wav") == str(directory / "c.wav")  # bare names are not searched for in parents
    small_corpora.write_text(directory / "data" / "wav" / "a.wav", "")
    assert resolve("data/wav/a.wav") == str(directory / "data" / "wav" / "a.wav")


def test_the_parent_directory_of_a_path_is_logged(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(layout, "_MAX_NOTES", 1000)  # other tests in this process log notes too
    small_corpora.write_text(tmp_path / "wav" / "a.wav", "")
    layout.resolve(str(tmp_path / "data"), "wav/a.wav")
    assert caplog.messages == [f"{tmp_path}/data: wav/a.wav is read from {tmp_path}"]


def test_named_splits_are_in_the_order_of_the_splits():
    found = layout.named_splits(["dev", "eval", "notes", "train", "valid"])
    assert found == [("train", "train"), ("dev", "dev"), ("dev", "valid"), ("test", "eval")]
    assert layout.named_splits(["Train.tsv", "dev.csv", "train"], ".tsv") == [("train", "Train.tsv")]


@pytest.mark.parametrize(
    ("names", "split"),
    [
        ("ASR_train.csv 训练集.csv", "train"),
        ("dev-clean.csv clips验证.csv", "dev"),
        ("普通话_测试_2.csv", "test"),
        ("train_dev.csv trained.csv data.list 训练测试.csv", None),
    ],
)
def test_a_split_is_found_among_the_words_of_a_name(names, split):
    assert [name for name in names.split() if layout.split_in(name) != split] == []


def test_an_unknown_split_is_refused_with_all_names():
    message = (
        "a.tsv: line 2: split is '其他', expected one of train, training, 训练, 训练集; dev, .*, 验证, .*; "
        "test, .*, 测试, .*; fix the line"
    )
    with pytest.raises(errors.UserError, match=message):
        layout.require_split("a.tsv: line 2", "其他")


@pytest.mark.parametrize(
    ("names", "split"),
    [
        ("train,Train,training,训练,训练集", "train"),
        ("dev,valid,validation,VAL,devel, Development ,验证, 开发集", "dev"),
        ("test,eval,Evaluation,testing,测试,评估集", "test"),
        ("训练数据,validated,train-clean-100,", None),
    ],
)
def test_names_of_splits_in_any_case(names, split):
    assert [name for name in names.split(",") if layout.split_of(name) != split] == []
