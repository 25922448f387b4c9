import os
import tarfile

import corpus_trees
import numpy as np
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.corpora import registry, wenet
from tfrecord_builder.records import items


def _list(path):
    return list(wenet.list_utterances(str(path)))


def test_lists_of_both_types(tmp_path):
    found = _list(corpus_trees.make_wenet_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.text, u.split, u.start_seconds, u.seconds) for u in found] == [
        ("a", "s1", "今天", "train", 0.0, None),
        ("a-1", "", "你好", "train", 0.25, 0.5),
        ("b", "", "广州市", "dev", 0.0, None),
    ]
    assert os.path.samefile(found[0].audio, tmp_path / "wav" / "a.wav")


def test_a_recording_is_read_in_place(tmp_path):
    found = _list(corpus_trees.make_wenet_corpus(tmp_path))[-1]
    np.testing.assert_array_equal(
        audio_files.read_audio(found.audio, 16000),
        audio_files.read_audio(str(tmp_path / "wav" / "b.wav"), 16000),
    )
    assert items.file_signature(found.audio)[0] == os.path.getsize(
        tmp_path / "shards" / "shards_000000000.tar"
    )


def test_a_single_list_with_paths_relative_to_where_the_recipe_ran(tmp_path):
    corpus_trees.make_wenet_corpus(tmp_path / "data")
    path = small_corpora.write_text(tmp_path / "data" / "valid.list", "data/shards/shards_000000000.tar\n")
    (found,) = registry.list_utterances("wenet", [path])
    assert (found.split, found.text) == ("dev", "广州市") and os.path.isabs(found.audio)
    small_corpora.write_text(
        tmp_path / "data" / "data.list", '{"key": "a", "wav": "data/wav/a.wav", "txt": "好"}'
    )
    (found,) = _list(tmp_path / "data")
    assert (found.split, found.audio) == ("train", str(tmp_path / "data" / "wav" / "a.wav"))


def test_a_shard_with_only_a_transcript_or_a_recording(tmp_path):
    corpus_trees.make_wenet_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "c.txt", "没有 录音\n")
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        shard.add(tmp_path / "c.txt", "c.txt")
        shard.add(tmp_path / "wav" / "a.wav", "d.wav")
    path = small_corpora.write_text(tmp_path / "a.list", "a.tar\n")
    found = _list(path)
    assert [(u.utterance_id, u.text, os.path.exists(u.audio)) for u in found] == [
        ("c", "没有 录音", False),
        ("d", "", False),  # a part of a file, which no file is named like
    ]
    assert not found[0].problem
    assert items.file_signature(found[0].audio) is None and items.file_signature(found[1].audio)


def test_a_transcript_of_another_encoding_rejects_its_utterance(tmp_path):
    (tmp_path / "a.txt").write_bytes("今天天气很好".encode("gbk"))
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        shard.add(tmp_path / "a.txt", "a.txt")
    assert [(u.text, u.problem) for u in _list(small_corpora.write_text(tmp_path / "a.list", "a.tar\n"))] == [
        ("", wenet.NOT_UTF_8)
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "a.tar\n",
            "data.list: shard .*/a.tar does not exist, expected the path of a tar file or a JSON",
        ),
        (
            "notes.txt\n",
            r"notes.txt: is not a valid tar file \(.*\), expected an uncompressed one",
        ),
        ('{"key": "a", "txt": "好"}\n', "data.list: line 1: columns are key, txt, expected also audio"),
        ('{"key": "a", "wav": "a", "txt": "好", "start": -1}\n', "line 1: start is '-1', expected a number"),
    ],
)
def test_lists_that_are_refused(tmp_path, content, message):
    small_corpora.write_text(tmp_path / "notes.txt", "no tar " * 200)
    small_corpora.write_text(tmp_path / "data.list", content)
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_other_directories_are_refused(tmp_path):
    with pytest.raises(
        errors.UserError, match=r"data.list and train/data.list \(or dev, valid, test, ...\) are missing"
    ):
        _list(tmp_path)
