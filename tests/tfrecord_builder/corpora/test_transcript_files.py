import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry


def _list(corpus, corpus_dir):
    return list(registry.CORPORA[corpus](str(corpus_dir)))


def test_thchs30_transcripts_in_the_split_folders(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    small_corpora.write_audio(tmp_path / "dev" / "B6_250.wav", small_corpora.tone(0.5))
    small_corpora.write_text(tmp_path / "dev" / "B6_250.wav.trn", "好\nhao3\nh ao3\n")
    (found,) = [u for u in _list("thchs30", tmp_path) if u.split == "dev"]
    assert (found.text, found.audio) == ("好", str(tmp_path / "dev" / "B6_250.wav"))


def test_thchs30_leaves_hidden_files_alone(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    (tmp_path / "train" / "._A11_0.wav.trn").write_bytes(b"Mac OS X\xff")
    assert len(_list("thchs30", tmp_path)) == 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ("", "")),
        ("\n\n", ("", "")),
        ("好\n", ("", "")),
        ("\nhao3\nh ao3\n", ("", "hao3")),  # an empty line is not skipped
        ("好\n\nh ao3\n", ("好", "")),
        ("\ufeff好\r\nhao3\r\nh ao3\r\n\r\n", ("好", "hao3")),
    ],
)
def test_thchs30_incomplete_transcripts_are_empty(tmp_path, content, expected):
    small_corpora.make_thchs30_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "data" / "D4_750.wav.trn", content)
    found = {u.utterance_id: u for u in _list("thchs30", tmp_path)}
    assert (found["D4_750"].text, found["D4_750"].pinyin) == expected
    assert found["D4_750"].audio == str(tmp_path / "data" / "D4_750.wav")
    assert found["A11_0"].pinyin == "lv4 shi4 yang2 chun1"


def test_thchs30_marks_that_are_not_spoken_are_removed(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    transcript = "判处 l = 六年\npan4 chu3 liu4 nian2\np an4\n"
    small_corpora.write_text(tmp_path / "data" / "A11_0.wav.trn", transcript)
    assert _list("thchs30", tmp_path)[0].text == "判处 六年"


def test_st_cmds_a_byte_order_mark_and_another_encoding(tmp_path):
    corpus_trees.make_st_cmds_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "20170001P00001A0001.txt", "\ufeff你好\r\n")
    assert _list("st_cmds", tmp_path)[0].text == "你好"
    (tmp_path / "20170001P00001A0001.txt").write_bytes("你好".encode("gbk"))
    assert _list("st_cmds", tmp_path)[0].text == "你好"
    (tmp_path / "20170001P00001A0001.txt").write_bytes("안녕".encode("euc-kr"))
    with pytest.raises(errors.UserError, match="20170001P00001A0001.txt: byte 0 is not UTF-8"):
        _list("st_cmds", tmp_path)


def test_st_cmds_other_directories(tmp_path):
    corpus_trees.make_st_cmds_corpus(tmp_path / "ST-CMDS-20170001_1-OS")
    for name in ("20170001P0000100001.txt", "20170001P00001A0001.metadata"):  # invalid name; not a recording
        small_corpora.write_text(tmp_path / name, "好")
    message = "found no ST-CMDS recordings such as 20170001P00001A0001.wav; pass the directory ST-CMDS-2017"
    with pytest.raises(errors.UserError, match=message):
        _list("st_cmds", tmp_path)


def test_librispeech_archives_and_hidden_files_are_ignored(tmp_path):
    corpus_trees.make_librispeech_corpus(tmp_path)
    for other in ("dev-clean.tar.gz", "test-other/.DS_Store", "test-other/367/._130732"):
        small_corpora.write_text(tmp_path / other, "")
    assert len(_list("librispeech", tmp_path)) == 5


def test_librispeech_line_ends_and_a_transcript_that_is_empty(tmp_path):
    corpus_trees.make_librispeech_corpus(tmp_path)
    path = tmp_path / "dev-clean" / "84" / "121123" / "84-121123.trans.txt"
    small_corpora.write_text(path, "\ufeff84-121123-0000 GO\r\n84-121123-0001\r\n\r\n")
    assert [(u.utterance_id, u.text) for u in _list("librispeech", tmp_path)][:2] == [
        ("84-121123-0000", "GO"),
        ("84-121123-0001", ""),
    ]
