import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import st_cmds


def _list(corpus_dir):
    return list(st_cmds.list_utterances(str(corpus_dir)))


def test_a_directory_of_recordings_and_transcripts(tmp_path):
    found = _list(corpus_trees.make_st_cmds_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.text, u.split) for u in found] == [
        ("20170001P00001A0001", "P00001A", "你好", "train"),
        ("20170001P00001I0001", "P00001I", "今天 天气很好", "train"),
        ("20170001P00002A0001", "P00002A", "", "train"),  # left to the checks, as is the next
        ("20170001P00003A0001", "P00003A", "没有录音", "train"),
    ]
    assert found[3].audio == str(tmp_path / "20170001P00003A0001.wav")


def test_a_byte_order_mark_and_another_encoding(tmp_path):
    corpus_trees.make_st_cmds_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "20170001P00001A0001.txt", "\ufeff你好\r\n")
    assert _list(tmp_path)[0].text == "你好"
    (tmp_path / "20170001P00001A0001.txt").write_bytes("你好".encode("gbk"))
    assert _list(tmp_path)[0].text == "你好"
    (tmp_path / "20170001P00001A0001.txt").write_bytes("안녕".encode("euc-kr"))
    with pytest.raises(errors.UserError, match="20170001P00001A0001.txt: byte 0 is not UTF-8"):
        _list(tmp_path)


def test_other_directories(tmp_path):
    corpus_trees.make_st_cmds_corpus(tmp_path / "ST-CMDS-20170001_1-OS")
    for name in ("20170001P0000100001.txt", "20170001P00001A0001.metadata"):  # no speaker; no recording
        small_corpora.write_text(tmp_path / name, "好")
    message = (
        "20170001PxxxxxAxxxx.wav and the like are missing, expected ST-CMDS; pass the directory ST-CMDS-2017"
    )
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)
