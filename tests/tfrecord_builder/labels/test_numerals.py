"""Numbers in hanzi, by the table of docs/numbers.md."""

from __future__ import annotations

import re

import paths
import pytest

from tfrecord_builder.labels import normalisation, numerals


def read_tables():
    """The rows of both tables: (written, said), and (written, said, read as, counted)."""
    text = (paths.ROOT / "docs" / "numbers.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] not in ("written", "---")]
    return [row for row in rows if len(row) == 2], [row for row in rows if len(row) == 4]


RIGHT, WRONG = read_tables()


def read(written):
    """What labels have."""
    return normalisation.normalise(numerals.read(written)).replace(" ", "")


def test_the_documentation_has_the_table():
    assert len(RIGHT) == 219 + 58 and len(WRONG) == 29


@pytest.mark.parametrize(("written", "said"), RIGHT)
def test_what_is_read_as_people_say_it(written, said):
    assert read(written) in said.replace(" ", "").split("，")


@pytest.mark.parametrize(("written", "said", "found", "counted"), WRONG)
def test_what_is_read_wrongly_is_what_the_documentation_says(written, said, found, counted):
    assert read(written) == found.replace(" ", "") and found not in said.split("，")
    assert numerals.is_unclear(written, "read") == (counted == "yes")


@pytest.mark.parametrize(("written", "said"), RIGHT)
def test_what_is_read_is_not_counted_but_falling_pairs(written, said):
    assert numerals.is_unclear(written, "read") == (written in ("比分4-2", "US$100"))


@pytest.mark.parametrize(
    "text", ["", "a楼,好。", "٣", 'say "hi" \\ {x}', "1", "〇", "\n", "!@#$%^&*()_+-=~`|<>?/"]
)
def test_what_has_no_digits_stays(text):
    assert numerals.read(text) == ("一" if text == "1" else text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今天8:30到9:15，气温-3℃。", "今天八点三十分到九点十五分气温负三摄氏度"),
        ("07:00:05", "七点零分五秒"),
        ("八点零分20人到场", "八点零分二十人到场"),
        ("下午2:00:10出发", "下午两点零分十秒出发"),
        ("12:00:00", "十二点"),
        ("8:05:05.5到02:00:10.25", "八点零五分五点五秒到两点零分十点二五秒"),
        ("成绩1:23.45", "成绩一分二十三点四五秒"),
        ("0:00:09到00:00:59", "零点零分九秒到零点零分五十九秒"),
        ("订单20261124", "订单二零二六一一二四"),
        ("5０％", "百分之五十"),  # full width
        ('他说"2"\\3', "他说二三"),
        ("12,345,678,901,234,567", "一二三四五六七八九零一二三四五六七"),
        ("1.23456789012345678", "一点二三四五六七八九零一二三四五六七八"),
    ],
)
def test_numbers_in_sentences_and_of_any_length(text, expected):
    assert re.sub("[^\u4e00-\u9fff]", "", read(text)) == expected


@pytest.mark.parametrize(
    ("text", "is_kept_unclear", "is_read_unclear"),
    [
        *(
            (text, True, False)
            for text in ("12.5%", "-5度", "8:30", "1/3", "5-10度", "½", "5℃", "¥5", "5 €", "2026-01-02")
            + ("1937—1945年", "1966年—1976年", ">5", "√2", "±5", "2³", "9·11")
        ),
        *((text, True, True) for text in ("歼-20", "18+", "2800/月", "97#", "30′", "100¥50")),
        ("气温-3℃", True, False),
        ("气温-3度", True, False),
        *((text, False, False) for text in ("23.", "1,2", "mp3", "好。", "", "2个", "a-b", "3,那么")),
    ],
)
def test_numbers_that_lose_something(text, is_kept_unclear, is_read_unclear):
    assert numerals.is_unclear(text, "keep") == is_kept_unclear
    assert numerals.is_unclear(text, "read") == is_read_unclear
