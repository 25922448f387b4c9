"""The written form of numbers, read with --numbers=read, equals the spoken words."""

import random

import pytest
import written_texts

from estimator_asr_runtime import written_form
from tfrecord_builder.labels import normalisation, numerals

# Spoken words -> how their written form is read; these written forms can be read in several ways.
OTHER_READINGS = {
    "一百五": "一百五十",
    "两千三": "二千三百",
    "月薪八千五": "月薪八千五百",
    "百分之百": "百分之一百",
    "负百分之二": "百分之负二",
    "一百一十": "一一零",  # 110 without a unit is read as the telephone number
    "两千零八年": "二零零八年",
    "两千年": "二零零零年",
    "九八年": "九十八年",
    "九秒五八": "九秒五十八",
    "他跑一百米用了九秒九八": "他跑一百米用了九秒九十八",
    "三百五十，四百二十": "三十五万零四百二十",  # the comma is read as a thousands separator
}
# Names that consist of digits are read as numbers (docs/numbers.md, What is read incorrectly).
NAMES = {
    "三零二路公交车": "三百零二路公交车",
    "三号楼二单元五零一": "三号楼二单元五百零一",
    "三一八国道": "三百一十八国道",
    "九八五高校": "九百八十五高校",
    "会议定于十二月三日上午九点半在三零五会议室举行": "会议定于十二月三日上午九点半在三百零五会议室举行",
}


@pytest.fixture(scope="module")
def form():
    return written_form.load()


def fold(text: str) -> str:
    """Returns normalised text in which 两 is 二, 幺 is 一, and letters have no spaces between them."""
    return normalisation.normalise(text).replace(" ", "").translate(str.maketrans("幺〇两", "一零二"))


def read(written: str) -> str:
    return fold(numerals.read(written))


def test_table():
    readings = {phrase: read(text) for phrase, text in written_texts.read_table().items()}
    expected = {phrase: phrase for phrase in readings} | OTHER_READINGS | NAMES
    assert readings == {phrase: fold(text) for phrase, text in expected.items()}


def say(number: int) -> str:
    """Returns an integer as it is spoken: 10203 is 一万零二百零三."""
    return numerals.read(f"{number}个")[:-1]


def assert_read_as_said(form, spoken: str):
    text = form.write(spoken)
    assert any(character.isdigit() for character in text), spoken
    assert read(text) == fold(spoken), (spoken, text)


@pytest.mark.parametrize("digits", range(2, 8))
def test_random_integers(form, digits):
    rng = random.Random(digits)
    for _ in range(30):
        number = rng.randrange(10 ** (digits - 1), 10**digits)
        assert_read_as_said(form, f"有{say(number)}个")


def test_random_round_numbers(form):
    rng = random.Random(1)
    for _ in range(40):
        assert_read_as_said(form, f"{say(rng.randrange(1, 10_000))}{rng.choice('万亿')}元")


def test_random_dates(form):
    rng = random.Random(2)
    for _ in range(40):
        year = "".join(rng.choice("零一二三四五六七八九") for _ in range(2))
        day = f"{say(rng.randint(1, 12))}月{say(rng.randint(1, 28))}{rng.choice('日号')}"
        assert_read_as_said(form, f"{rng.choice(('一九', '二零'))}{year}年{day}".replace("两", "二"))


def test_random_times(form):
    rng = random.Random(3)
    for _ in range(40):
        minute = rng.randint(1, 59)
        tens = "零" if minute < 10 else ""
        time = f"{rng.choice(('上午', '晚上'))}{say(rng.randint(1, 12))}点{tens}{say(minute)}分"
        assert_read_as_said(form, time.replace("零两", "零二"))


def test_random_amounts(form):
    rng = random.Random(4)
    for _ in range(40):
        whole, fraction = say(rng.randrange(1, 10_000)), rng.choice("一二三四五六七八九")
        assert_read_as_said(form, f"{whole}点{fraction}{rng.choice(('元', '公里', '千克', '万元'))}")
        assert_read_as_said(form, f"百分之{whole}点{fraction}")
        assert_read_as_said(form, f"{whole}块{fraction}毛")


def test_random_telephone_numbers(form):
    rng = random.Random(5)
    for _ in range(50):
        assert_read_as_said(form, "电话一" + "".join(rng.choice("零一二三四五六七八九") for _ in range(10)))
