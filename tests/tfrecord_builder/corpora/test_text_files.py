import errno
import io
import os

import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import text_files
from tfrecord_builder.storage import files

CHINESE = "编号\t文本\nu1\t今天天气很好\nu2\t广州市房地产中介协会分析\n"


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "manifest.tsv")
    message = r"manifest.tsv cannot be read as a text file \(Not a regular file\); see docs/corpora.md"
    with pytest.raises(errors.UserError, match=message):
        list(text_files.read_lines(str(tmp_path / "manifest.tsv")))


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"", "utf-8-sig"),
        (b"id\ttext\n", "utf-8-sig"),
        (CHINESE.encode(), "utf-8-sig"),
        (CHINESE.encode("utf-8-sig"), "utf-8-sig"),
        (CHINESE.encode("utf-16"), "utf-16"),
        (b"\xfe\xff" + CHINESE.encode("utf-16-be"), "utf-16"),
        (CHINESE.encode("gbk"), "gb18030"),
        (CHINESE.encode("gb18030"), "gb18030"),
        ("一下".encode("gbk"), "gb18030"),
    ],
)
def test_encodings_that_are_read(content, encoding):
    assert text_files.find_encoding(io.BytesIO(content)) == encoding


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("El niño comió", "latin-1"),
        ("Müller", "latin-1"),
        ("déjà", "latin-1"),
        ("ça va", "cp1252"),
        ("привет мама", "cp1251"),
        ("бедняга ребят на его месте", "cp1251"),
        ("мама мыла раму", "koi8-r"),
        ("안녕하세요 오늘 날씨가 좋습니다", "euc-kr"),
        ("今日は天気がいいですね", "shift-jis"),
        ("今日は天気がいいですね", "euc-jp"),
        ("今天天氣很好", "big5"),
        ("καλημέρα κόσμε", "iso8859-7"),
    ],
)
def test_other_encodings_never_become_wrong_chinese(text, encoding):
    assert text_files.find_encoding(io.BytesIO(text.encode(encoding))) is None


@pytest.mark.parametrize(("text", "encoding"), [("今天天气的Ж", "gb18030"), ("今天天气Ж", None)])
def test_more_than_four_fifths_of_the_letters_must_be_hanzi(text, encoding):
    assert text_files.find_encoding(io.BytesIO(text.encode("gbk"))) == encoding


@pytest.mark.parametrize("place", [30, 31, 32, 60, -2])
def test_damaged_utf_8_never_becomes_wrong_chinese(place):
    content = bytearray(CHINESE.encode())
    content[place] = 0xFF
    assert text_files.find_encoding(io.BytesIO(content)) is None
    del content[place]
    assert text_files.find_encoding(io.BytesIO(content)) is None


def test_a_character_that_is_read_in_two_blocks(monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", 2)
    assert text_files.find_encoding(io.BytesIO("今天天气".encode())) == "utf-8-sig"
    assert text_files.find_encoding(io.BytesIO("今天天气".encode()[:-1])) is None
    assert text_files.find_encoding(io.BytesIO("u1 今天天气".encode("gbk"))) == "gb18030"
    assert text_files.find_encoding(io.BytesIO("u1 今天天气".encode("gbk")[:-1])) is None


def _read(path):
    return list(text_files.read_lines(str(path)))


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(errors.UserError, match="none.tsv: file does not exist; see docs/corpora.md"):
        _read(tmp_path / "none.tsv")
    with pytest.raises(errors.UserError, match=r"cannot be read as a text file \(Is a directory\); see"):
        _read(tmp_path)

    def deny(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "open", deny, raising=False)
    with pytest.raises(errors.UserError, match=r"a.tsv cannot be read as a text file \(Permission denied\)"):
        _read(tmp_path / "a.tsv")


def test_the_first_byte_of_another_encoding_is_named(tmp_path):
    (tmp_path / "latin.tsv").write_bytes(b"id\taudio\ttext\n" + b"u\ta\tb\n" * 10000 + b"\xe9\n")
    message = r"latin.tsv: byte 60014 is not UTF-8. The file must be UTF-8, UTF-16 .*, or Ch.* \(GBK\); save"
    with pytest.raises(errors.UserError, match=message):
        _read(tmp_path / "latin.tsv")


@pytest.mark.parametrize(("encoding", "name"), [("utf-16", "UTF-16"), ("gbk", "GB18030"), ("utf-8-sig", "")])
def test_an_encoding_other_than_utf_8_is_logged(tmp_path, encoding, name, caplog, monkeypatch):
    monkeypatch.setattr(text_files, "_MAX_NOTES", 1000)  # other tests in this process log warnings too
    (tmp_path / "a.tsv").write_bytes("u1\t你好\r\nu2\t今天天气很好\r\n".encode(encoding))
    assert _read(tmp_path / "a.tsv") == ["u1\t你好", "u2\t今天天气很好"]
    assert (f"a.tsv is read as {name}" in caplog.text) == bool(name)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("\ufeffa\r\n\nb\n", ["a", "", "b"]),
        ("\n", [""]),
        ("a\u2028b\n", ["a\u2028b"]),
    ],
)
def test_lines(tmp_path, content, lines):
    assert _read(small_corpora.write_text(tmp_path / "a.txt", content)) == lines
