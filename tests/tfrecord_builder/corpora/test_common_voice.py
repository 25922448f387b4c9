import os
import shutil

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import common_voice


def _list(corpus_dir):
    return list(common_voice.list_utterances(str(corpus_dir)))


def test_the_three_splits(tmp_path):
    found = _list(corpus_trees.make_common_voice_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("common_voice_zh-CN_18524189", "9f3c", "train", '"包应登，字稺升。'),  # no quoting
        ("common_voice_zh-CN_18531538", "0b1d", "dev", "你好"),
        ("common_voice_zh-CN_33655758", "77aa", "test", "谢谢"),
    ]
    assert found[0].audio == str(tmp_path / "clips" / "common_voice_zh-CN_18524189.mp3")


def test_other_columns_byte_order_mark_and_line_ends(tmp_path):
    corpus_trees.make_common_voice_corpus(tmp_path)
    for split in ("train", "test"):
        os.remove(tmp_path / f"{split}.tsv")
    content = "\ufeffclient_id\tpath\tsentence_id\tsentence\r\nab\tx.mp3\t7\tHello, \u201cyou\u201d!\r\n"
    small_corpora.write_text(tmp_path / "dev.tsv", content)
    (found,) = _list(tmp_path)
    assert (found.utterance_id, found.speaker, found.text) == ("x", "ab", "Hello, \u201cyou\u201d!")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "client_id\tpath\na\tb.mp3\n",
            "train.tsv: columns are client_id, path, expected also text .text, transcript, .*sentence",
        ),
        (
            "client_id\tpath\tsentence\na\t \t好\n",
            "train.tsv: line 2: id or audio is empty, expected both",
        ),
    ],
)
def test_invalid_tables_are_refused(tmp_path, content, message):
    corpus_trees.make_common_voice_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "train.tsv", content)
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_other_directories(tmp_path):
    corpus_trees.make_common_voice_corpus(tmp_path / "zh-CN")
    message = "train.tsv, dev.tsv and test.tsv are missing, expected Common Voice; pass the directory of one"
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)
    shutil.rmtree(tmp_path / "zh-CN" / "clips")
    with pytest.raises(
        errors.UserError, match="zh-CN: clips is missing, expected train.tsv, .* and clips of Com"
    ):
        _list(tmp_path / "zh-CN")
