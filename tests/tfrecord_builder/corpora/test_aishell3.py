import os
import shutil

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import aishell3


def _list(corpus_dir):
    return list(aishell3.list_utterances(str(corpus_dir)))


def test_hanzi_and_pinyin_alternate(tmp_path):
    found = _list(corpus_trees.make_aishell3_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text, u.pinyin) for u in found] == [
        ("SSB00050001", "SSB0005", "train", "广 州", "guang3 zhou1"),
        ("SSB00050002", "SSB0005", "train", "一 点儿", "yi1 dianr3"),
        ("SSB06930002", "SSB0693", "test", "武 术", "wu3 shu4"),
    ]
    assert found[2].audio == str(tmp_path / "test" / "wav" / "SSB0693" / "SSB06930002.wav")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("女 nv3 儿 er2", ("女 儿", "nv3 er2")),
        ("我 wo3 爱 ai4 A ei1", ("我 爱 A", "")),  # no syllable is made up for what is no hanzi
        ("我 wo3 爱", ("我 爱", "")),
        ("你好 ni3 吗 ma5", ("你好 吗", "")),  # two hanzi, one syllable
        ("吗 ma 我 wo3", ("吗 ma 我", "")),
        ("", ("", "")),
    ],
)
def test_lines_that_are_not_pairs(tmp_path, line, expected):
    corpus_trees.make_aishell3_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "test" / "content.txt", f"\ufeffSSB06930002.wav\t{line}\r\n")
    found = _list(tmp_path)[-1]
    assert (found.utterance_id, found.text, found.pinyin) == ("SSB06930002", *expected)


def test_a_recording_and_a_transcript_without_the_other(tmp_path):
    corpus_trees.make_aishell3_corpus(tmp_path)
    recordings = tmp_path / "train" / "wav" / "SSB0005"
    os.rename(recordings / "SSB00050001.wav", recordings / "SSB00050009.wav")
    found = [u for u in _list(tmp_path) if u.split == "train"]
    assert [(u.utterance_id, u.text) for u in found] == [
        ("SSB00050002", "一 点儿"),
        ("SSB00050009", ""),
        ("SSB00050001", "广 州"),
    ]
    assert (found[2].audio, found[2].pinyin) == (str(recordings / "SSB00050001.wav"), "guang3 zhou1")


def test_other_directories(tmp_path):
    corpus_trees.make_aishell3_corpus(tmp_path / "data_aishell3")
    message = (
        "train/wav, test/wav is missing, expected train/wav and test/wav of AISHELL-3; pass the directory"
    )
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)
    os.remove(tmp_path / "data_aishell3" / "train" / "content.txt")
    with pytest.raises(errors.UserError, match="content.txt: file does not exist; pass the dir"):
        _list(tmp_path / "data_aishell3")
    shutil.rmtree(tmp_path / "data_aishell3" / "test")
    with pytest.raises(errors.UserError, match="data_aishell3: test/wav is missing"):
        _list(tmp_path / "data_aishell3")
