import os
import tarfile

import corpus_trees
import numpy as np
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.building import sharding
from tfrecord_builder.corpora import json_lists, registry


def _list_wenet(path):
    return list(json_lists.list_wenet(str(path)))


def test_wenet_lists_of_both_types(tmp_path):
    found = _list_wenet(corpus_trees.make_wenet_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.text, u.split, u.start_seconds, u.seconds) for u in found] == [
        ("a", "s1", "今天", "train", 0.0, None),
        ("a-1", "", "你好", "train", 0.25, 0.5),
        ("b", "", "广州市", "dev", 0.0, None),
    ]
    assert os.path.samefile(found[0].audio, tmp_path / "wav" / "a.wav")


def test_wenet_a_recording_is_read_in_place(tmp_path):
    found = _list_wenet(corpus_trees.make_wenet_corpus(tmp_path))[-1]
    in_place, unpacked = (
        audio_files.read_audio(path, 16000) for path in (found.audio, str(tmp_path / "wav" / "b.wav"))
    )
    np.testing.assert_array_equal(in_place, unpacked)
    tar_file = tmp_path / "shards" / "shards_000000000.tar"
    assert sharding.file_signature(found.audio)[0] == tar_file.stat().st_size


def test_wenet_a_single_list_with_paths_relative_to_where_the_recipe_ran(tmp_path):
    corpus_trees.make_wenet_corpus(tmp_path / "data")
    path = small_corpora.write_text(tmp_path / "data" / "valid.list", "data/shards/shards_000000000.tar\n")
    (found,) = registry.list_utterances("wenet", [path])
    assert (found.split, found.text) == ("dev", "广州市") and os.path.isabs(found.audio)
    small_corpora.write_text(
        tmp_path / "data" / "data.list", '{"key": "a", "wav": "data/wav/a.wav", "txt": "好"}'
    )
    (found,) = _list_wenet(tmp_path / "data")
    assert (found.split, found.audio) == ("train", str(tmp_path / "data" / "wav" / "a.wav"))


def test_wenet_a_shard_with_only_a_transcript_or_a_recording(tmp_path):
    corpus_trees.make_wenet_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "c.txt", "没有 录音\n")
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        shard.add(tmp_path / "c.txt", "c.txt")
        shard.add(tmp_path / "wav" / "a.wav", "d.wav")
    path = small_corpora.write_text(tmp_path / "a.list", "a.tar\n")
    found = _list_wenet(path)
    assert [(u.utterance_id, u.text, os.path.exists(u.audio)) for u in found] == [
        ("c", "没有 录音", False),
        ("d", "", False),  # the path names a part of the tar file
    ]
    assert not found[0].problem
    assert sharding.file_signature(found[0].audio) is None and sharding.file_signature(found[1].audio)


def test_wenet_a_transcript_of_another_encoding_rejects_its_utterance(tmp_path):
    (tmp_path / "a.txt").write_bytes("今天天气很好".encode("gbk"))
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        shard.add(tmp_path / "a.txt", "a.txt")
    (found,) = _list_wenet(small_corpora.write_text(tmp_path / "a.list", "a.tar\n"))
    assert (found.text, found.problem) == ("", json_lists.NOT_UTF_8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a.tar\n", "data.list: shard .*/a.tar does not exist; fix the path. Each line must be either a JS"),
        ("notes.txt\n", r"notes.txt is not a valid, uncompressed tar file \(.*\); create"),
        ('{"key": "a", "txt": "好"}\n', "data.list: line 1: found key, txt, but no audio"),
        ('{"key": "a", "wav": "a", "txt": "好", "start": -1}\n', "line 1: start is '-1', expected a number"),
    ],
)
def test_wenet_lists_that_are_refused(tmp_path, content, message):
    small_corpora.write_text(tmp_path / "notes.txt", "no tar " * 200)
    small_corpora.write_text(tmp_path / "data.list", content)
    with pytest.raises(errors.UserError, match=message):
        _list_wenet(tmp_path)


def test_wenet_other_directories_are_refused(tmp_path):
    message = r"such as data.list or train/data.list \(also dev, valid, test, ...\); pass"
    with pytest.raises(errors.UserError, match=message):
        _list_wenet(tmp_path)


def _list_nemo(corpus_dir):
    return list(json_lists.list_nemo(str(corpus_dir)))


def test_nemo_manifests(tmp_path):
    found = _list_nemo(corpus_trees.make_nemo_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text, u.pinyin) for u in found] == [
        ("dev-1-c", "2", "dev", "谢谢", "xie4 xie5"),
        ("train_manifest-1-a", "", "train", "今天天气很好", ""),
        ("train_manifest-2-b", "s1", "train", "你好", ""),
    ]
    assert [(u.start_seconds, u.seconds) for u in found] == [(0.0, 1.0), (0.0, 1.0), (0.25, 0.5)]
    assert found[1].audio == str(tmp_path / "wav" / "a.wav")


def test_nemo_names_of_manifests(tmp_path):
    second = '{"audio_filepath": "s3://in/a.wav", "text": null}'
    line = f'\ufeff{{"audio_filepath": "/in/a.wav"}}\r\n\r\n{second}\r\n'
    for name in ("train_clean.json", "test.json", "dev-other.jsonl", "trainer.json", "tarred_train.json"):
        small_corpora.write_text(tmp_path / name, line)
    assert [(u.utterance_id, u.split, u.audio, u.text) for u in _list_nemo(tmp_path)] == [
        ("dev-other-1-a", "dev", "/in/a.wav", ""),
        ("dev-other-3-a", "dev", "s3://in/a.wav", ""),
        ("test-1-a", "test", "/in/a.wav", ""),
        ("test-3-a", "test", "s3://in/a.wav", ""),
        ("train_clean-1-a", "train", "/in/a.wav", ""),
        ("train_clean-3-a", "train", "s3://in/a.wav", ""),
    ]


def test_nemo_a_duration_without_an_offset_begins_at_0(tmp_path):
    lines = [{"duration": 0.4}, {"duration": 0.4, "offset": 0}, {"offset": 0.3}, {}]
    content = corpus_trees.to_lines({"audio_filepath": "a.wav", **each} for each in lines)
    small_corpora.write_text(tmp_path / "train.json", content)
    found = [(u.start_seconds, u.seconds) for u in _list_nemo(tmp_path)]
    assert found == [(0.0, 0.4), (0.0, 0.4), (0.3, None), (0.0, None)]


def test_nemo_channels(tmp_path):
    selectors = [None, 0, 1, [1], "average", ["average"], [0, 1], [], -1, "1", True, 0.5]
    lines = ({"audio_filepath": "a.wav", "channel_selector": selector} for selector in selectors)
    small_corpora.write_text(tmp_path / "train.json", corpus_trees.to_lines(lines))
    found = _list_nemo(tmp_path)
    assert [u.channel for u in found[:6]] == [None, 0, 1, 1, None, None]
    assert [u.problem for u in found[:6]] == [""] * 6
    wanted = 'NeMo channel_selector is not a channel number, a list of one number, or "average"'
    assert [u.problem for u in found[6:]] == [wanted] * 6


def test_nemo_other_names_of_splits(tmp_path):
    for name in ("valid", "validation_manifest", "val.clean", "Train", "eval"):
        small_corpora.write_text(tmp_path / f"{name}.json", '{"audio_filepath": "a.wav"}\n')
    splits = [u.split for u in _list_nemo(tmp_path)]  # sorted by file name
    assert splits == ["train", "test", "dev", "dev", "dev"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1", "train.json: line 1: '1' is not a valid JSON object"),
        ("[1]", "train.json: object 1: 1 is not a JSON object"),
        ('{"text": "好"}', "line 1: found text, but no audio"),
        ('{"audio_filepath": ["a.wav"]}', r"line 1: audio_filepath is \['a.wav'\], expected text"),
        ('{"audio_filepath": "a.wav", "offset": "x"}', "line 1: start is 'x', expected a number of seconds"),
        ('{"audio_filepath": "a.wav", "duration": -1}', "line 1: duration is '-1', expected a number"),
        ('{"audio_filepath": "a.wav", "text": {}}', "line 1: text is {}, expected text"),
    ],
)
def test_nemo_invalid_lines_are_refused(tmp_path, line, message):
    small_corpora.write_text(tmp_path / "train.json", line)
    with pytest.raises(errors.UserError, match=message):
        _list_nemo(tmp_path)


def test_nemo_other_directories(tmp_path):
    small_corpora.write_text(tmp_path / "manifest.json", "{}")
    message = "found no NeMo manifest such as train.json, train_manifest.json"
    with pytest.raises(errors.UserError, match=message):
        _list_nemo(tmp_path)


@pytest.mark.parametrize("name", ["tarred_audio_manifest.json", "train.json"])
def test_nemo_a_tarred_manifest_is_named(tmp_path, name):
    line = '{"audio_filepath": "a.wav", "duration": 1.0, "text": "你好", "shard_id": 0}\n'
    small_corpora.write_text(tmp_path / name, line)
    message = "line 1: tarred NeMo datasets are not supported; pass the manifest of the original audio"
    with pytest.raises(errors.UserError, match=f"{name}: {message}"):
        _list_nemo(tmp_path)
