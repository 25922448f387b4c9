import os
import shutil

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import aidatatang_200zh


def _list(corpus_dir):
    return list(aidatatang_200zh.list_utterances(str(corpus_dir)))


def test_recordings_then_transcripts_without_one(tmp_path):
    found = _list(corpus_trees.make_aidatatang_200zh_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("T0055G0013S0001", "G0013", "train", "以后 你 是 男孩子"),
        ("T0055G0002S0001", "G0002", "dev", "看看 我 的 日程表"),
        ("T0055G0036S0001", "G0036", "test", "谢谢"),
        ("T0055G0002S0002", "G0002", "dev", "没有 录音"),
        ("T0055G9999S0001", "G9999", "train", "没有 人"),
    ]
    assert found[3].audio == str(tmp_path / "corpus" / "dev" / "G0002" / "T0055G0002S0002.wav")


def test_a_recording_without_a_transcript(tmp_path):
    corpus_trees.make_aidatatang_200zh_corpus(tmp_path)
    path = tmp_path / "transcript" / "aidatatang_200_zh_transcript.txt"
    small_corpora.write_text(path, "\ufeffT0055G0013S0001 好 的\r\n\r\n")
    assert [u.text for u in _list(tmp_path)] == ["好 的", "", ""]


def test_speakers_that_are_not_unpacked(tmp_path):
    corpus_trees.make_aidatatang_200zh_corpus(tmp_path)
    train = tmp_path / "corpus" / "train"
    small_corpora.write_text(train / "G0013.tar.gz", "")
    assert len(_list(tmp_path)) == 5
    small_corpora.write_text(train / "G0014.tar.gz", "")
    message = r"corpus/train: 1 of 2 archives are not unpacked \(G0014.tar.gz is one\), expected a folder"
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_other_directories(tmp_path):
    corpus_trees.make_aidatatang_200zh_corpus(tmp_path / "aidatatang_200zh")
    message = (
        "corpus/test is missing, expected .* of aidatatang_200zh; pass the directory aidatatang_200zh itself"
    )
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)
    shutil.rmtree(tmp_path / "aidatatang_200zh" / "corpus" / "dev")
    with pytest.raises(errors.UserError, match="aidatatang_200zh: corpus/dev is missing"):
        _list(tmp_path / "aidatatang_200zh")
    os.remove(tmp_path / "aidatatang_200zh" / "transcript" / "aidatatang_200_zh_transcript.txt")
    with pytest.raises(
        errors.UserError, match="transcript/aidatatang_200_zh_transcript.txt, corpus/dev is missing"
    ):
        _list(tmp_path / "aidatatang_200zh")
