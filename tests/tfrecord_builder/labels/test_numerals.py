"""Tests how numbers are read, with the tables in docs/numbers.md."""

import re

import paths
import pytest

from tfrecord_builder.labels import normalisation, numerals


def read_tables():
    """Returns the rows of three tables: (written, said), (written, said), (written, said, read, counted)."""
    text = (paths.ROOT / "docs" / "numbers.md").read_text(encoding="utf-8")
    tables = [[], [], []]
    for section, table in zip(text.split("\n## ")[1:], tables):
        rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
        table.extend(row for row in rows if row[0] not in ("written", "---"))
    return tables


RIGHT, HARD, WRONG = read_tables()


def read(written):
    """Returns the characters of the labels."""
    return normalisation.normalise(numerals.read(written)).replace(" ", "")


def test_the_documentation_contains_the_table():
    assert len(RIGHT) == 219 + 64 and len(HARD) == 11 + 100 + 16 and len(WRONG) == 23


@pytest.mark.parametrize(("written", "said"), RIGHT)
def test_numbers_are_read_as_people_say_them(written, said):
    assert read(written) in said.replace(" ", "").split("，")


@pytest.mark.parametrize(("written", "said"), HARD)
def test_hard_forms_are_read_completely_or_counted(written, said):
    expected = said.split("，")
    if numerals.is_unclear(written, "read"):
        assert "unclear" in expected
    else:
        assert read(written) in expected


@pytest.mark.parametrize(("written", "said", "found", "counted"), WRONG)
def test_misread_numbers_are_documented(written, said, found, counted):
    assert read(written) == found.replace(" ", "") and found not in said.split("，")
    assert numerals.is_unclear(written, "read") == (counted == "yes")


@pytest.mark.parametrize(("written", "said"), RIGHT)
def test_numbers_that_are_read_correctly_are_not_unclear(written, said):
    """The exceptions are a pair whose second number is smaller, and US$."""
    assert numerals.is_unclear(written, "read") == (written in ("比分4-2", "US$100"))


@pytest.mark.parametrize(
    "text", ["", "a楼,好。", "٣", 'say "hi" \\ {x}', "1", "〇", "\n", "!@#$%^&*()_+-=~`|<>?/"]
)
def test_text_without_digits_is_unchanged(text):
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
            + ("1937—1945年", "1966年—1976年", ">5", "√2", "±5", "2³", "9·11", "5km²")
        ),
        *((text, True, True) for text in ("歼-20", "2800/月", "97#", "30′", "100¥50")),
        ("气温-3℃", True, False),
        ("18+", True, False),
        ("……68", True, False),
        ("90后", False, False),
        *((text, True, True) for text in ("共.5米", "5'3\"", "02-29", "٣", "1.5E5", "3...5")),
        *((text, False, True) for text in ("1,00", "1，00", "5 10", "1990s", "第1 2名", "3→5")),
        *((text, False, False) for text in ("收了299，5号走", '他说"2"', "有OK，6点走", "2·装机", "170~")),
        ("气温-3度", True, False),
        *((text, False, False) for text in ("23.", "1,2", "mp3", "好。", "", "2个", "a-b", "3,那么")),
    ],
)
def test_numbers_that_would_lose_a_part_are_unclear(text, is_kept_unclear, is_read_unclear):
    assert numerals.is_unclear(text, "keep") == is_kept_unclear
    assert numerals.is_unclear(text, "read") == is_read_unclear


def parse_hanzi(text):
    """Returns the value of a number in hanzi, computed independently of the grammar."""
    total = section = digit = 0
    for character in text:
        if character in "十百千":
            section += max(digit, 1) * {"十": 10, "百": 100, "千": 1000}[character]
            digit = 0
        elif character in "万亿":
            above, unit = (0, 10**4) if character == "万" else (total, 10**8)
            total = total - above + (above + section + digit) * unit
            section = digit = 0
        else:
            digit = "零一二三四五六七八九".index(character.replace("两", "二"))
    return total + section + digit


@pytest.mark.parametrize("separator", ["", ",", "'", " "])
def test_reading_preserves_the_value_of_a_number(separator):
    for value in (1_000, 3_000, 10_005, 12_345, 25_000, 120_000, 999_999, 1_000_000, 12_345_678, 120_000_000):
        written = f"{value:,}".replace(",", separator)
        assert parse_hanzi(read(f"{written}元").removesuffix("元")) == value
        if separator in (",", "'"):
            assert parse_hanzi(read(written)) == value
        assert not numerals.is_unclear(f"{written}元", "read")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2’000", "两千"),
        ("800000年", "八十万年"),
        ("8000000000000个", "八零零零零零零零零零零零零个"),  # too long for the grammar
        ("80、90后", "八零九零后"),
        ("¥5-10", "五到十元"),
        ("8:00am-5:00pm", "上午八点到下午五点"),
        ("5km-10km", "五公里到十公里"),
        ("1/3-1/2", "三分之一到二分之一"),
        ("7℃—10℃", "七摄氏度到十摄氏度"),
        ("5元/m²", "五元每平方米"),
        ("第2年", "第二年"),
        ("10月2日-5日", "十月二日到五日"),
        ("10,000km", "一万公里"),
        ("12,345,678kg", "一千二百三十四万五千六百七十八千克"),
        ("学了2年汉语", "学了两年汉语"),
        ("3人/间", "三人每间"),
        ("2年2班2年后", "二年二班两年后"),
        ("(86)13800138000", "八六幺三八零零幺三八零零零"),
    ],
)
def test_values_that_earlier_versions_lost_are_read(text, expected):
    assert read(text) == expected
