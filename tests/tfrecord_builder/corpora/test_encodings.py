import io

import pytest

from tfrecord_builder.corpora import encodings

CHINESE = "编号\t文本\nu1\t今天天气很好\nu2\t广州市房地产中介协会分析\n"


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
    assert encodings.find(io.BytesIO(content)) == encoding


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
    assert encodings.find(io.BytesIO(text.encode(encoding))) is None


@pytest.mark.parametrize("place", [30, 31, 32, 60, -2])
def test_damaged_utf_8_never_becomes_wrong_chinese(place):
    content = bytearray(CHINESE.encode())
    content[place] = 0xFF
    assert encodings.find(io.BytesIO(content)) is None
    del content[place]
    assert encodings.find(io.BytesIO(content)) is None


def test_a_character_across_the_blocks_that_are_read(monkeypatch):
    monkeypatch.setattr(encodings, "_BLOCK_BYTES", 2)
    assert encodings.find(io.BytesIO("今天天气".encode())) == "utf-8-sig"
    assert encodings.find(io.BytesIO("今天天气".encode()[:-1])) is None
    assert encodings.find(io.BytesIO("u1 今天天气".encode("gbk"))) == "gb18030"
    assert encodings.find(io.BytesIO("u1 今天天气".encode("gbk")[:-1])) is None
