import os

import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry


def _list(corpus, *directories):
    return list(registry.list_utterances(corpus, [str(directory) for directory in directories]))


def test_the_three_splits(tmp_path):
    found = _list("thchs30", small_corpora.make_thchs30_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split) for u in found] == [
        ("A11_0", "A11", "train"),
        ("B6_250", "B6", "dev"),
        ("D4_750", "D4", "test"),
    ]
    assert found[0].audio == str(tmp_path / "data" / "A11_0.wav")
    assert (found[0].text, found[0].pinyin) == ("绿 是 阳春", "lv4 shi4 yang2 chun1")


def test_transcripts_in_the_split_folders(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    small_corpora.write_audio(tmp_path / "dev" / "B6_250.wav", small_corpora.tone(0.5))
    small_corpora.write_text(tmp_path / "dev" / "B6_250.wav.trn", "好\nhao3\nh ao3\n")
    (found,) = [u for u in _list("thchs30", tmp_path) if u.split == "dev"]
    assert (found.text, found.audio) == ("好", str(tmp_path / "dev" / "B6_250.wav"))


def test_leaves_hidden_files_alone(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    (tmp_path / "train" / "._A11_0.wav.trn").write_bytes(b"Mac OS X\xff")
    assert len(_list("thchs30", tmp_path)) == 3


def test_incomplete(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    os.remove(tmp_path / "data" / "D4_750.wav.trn")
    with pytest.raises(errors.UserError, match="D4_750.wav.trn: file does not exist"):
        _list("thchs30", tmp_path)
    with pytest.raises(errors.UserError, match="test is missing, expected data, train, dev and test"):
        os.remove(tmp_path / "test" / "D4_750.wav.trn")
        os.rmdir(tmp_path / "test")
        _list("thchs30", tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ("", "")),  # rejected and counted by the checks
        ("\n\n", ("", "")),
        ("好\n", ("", "")),
        ("\nhao3\nh ao3\n", ("", "hao3")),  # a blank line keeps its place
        ("好\n\nh ao3\n", ("好", "")),
        ("\ufeff好\r\nhao3\r\nh ao3\r\n\r\n", ("好", "hao3")),
    ],
)
def test_incomplete_transcripts_are_empty(tmp_path, content, expected):
    small_corpora.make_thchs30_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "data" / "D4_750.wav.trn", content)
    found = {u.utterance_id: u for u in _list("thchs30", tmp_path)}
    assert (found["D4_750"].text, found["D4_750"].pinyin) == expected
    assert found["D4_750"].audio == str(tmp_path / "data" / "D4_750.wav")
    assert found["A11_0"].pinyin == "lv4 shi4 yang2 chun1"


def test_marks_that_are_not_spoken_are_removed(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    small_corpora.write_text(
        tmp_path / "data" / "A11_0.wav.trn", "判处 l = 六年\npan4 chu3 liu4 nian2\np an4\n"
    )
    assert _list("thchs30", tmp_path)[0].text == "判处 六年"
