import os
import shutil

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import magicdata


def _list(corpus_dir):
    return list(magicdata.list_utterances(str(corpus_dir)))


def test_recordings_then_transcripts_without_one(tmp_path):
    found = _list(corpus_trees.make_magicdata_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("38_5716_01", "38_5716", "train", "嗨天气寒冷记得添衣保暖哦"),
        ("38_5716_02", "38_5716", "train", ""),
        ("5_1812_01", "5_1812", "dev", "你好"),
        ("5_1812_02", "5_1812", "dev", "没有录音"),
        ("15_2222_01", "15_2222", "test", "谢谢"),
    ]
    assert found[3].audio == str(tmp_path / "dev" / "5_1812" / "5_1812_02.wav")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("[FIL]你好[SPK]谢谢", "你好 谢谢"),
        ("FIL你好SPK", "你好"),
        ("<NOISE> 你好 [ FIL ]", "你好"),
        ("[FIL]", ""),
        ("打开FILE和SPKR", "打开FILE和SPKR"),  # words that only begin so
        ("PROFIL和MSPK", "PROFIL和MSPK"),  # or end so
        ("你好，[今天]。", "你好，[今天]。"),
    ],
)
def test_marks_are_removed(tmp_path, written, text):
    corpus_trees.make_magicdata_corpus(tmp_path)
    header = "\ufeffUtteranceID\tSpeakerID\tTranscription\r\n"
    small_corpora.write_text(
        tmp_path / "test" / "TRANS.txt", f"{header}15_2222_01.wav\t15_2222\t{written}\r\n"
    )
    assert _list(tmp_path)[-1].text == text


def test_splits_that_are_not_unpacked_and_other_directories(tmp_path):
    corpus_trees.make_magicdata_corpus(tmp_path)
    shutil.rmtree(tmp_path / "train")
    assert {u.split for u in _list(tmp_path)} == {"dev", "test"}
    message = r"dev/5_1812: train, dev and test are missing, expected those of MAGICDATA; unpack train_set"
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path / "dev" / "5_1812")
    os.remove(tmp_path / "dev" / "TRANS.txt")
    with pytest.raises(errors.UserError, match="dev/TRANS.txt: file does not exist; unpack train"):
        _list(tmp_path)
