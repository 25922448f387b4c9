"""The table in docs/written-form.tsv, and random text that is difficult for the rules of the written form."""

import csv
import random
import re

import paths

from estimator_asr_runtime import written_form

# Characters in and around numbers, so that random text often contains numbers, including unusual ones.
_NUMERALS = "零〇幺一二两三四五六七八九十百千万亿点点到比月年日号分块毛米度第百几多半"
# Latin words and letters, and characters of the numbers that may follow them.
_LATIN = ("hello", "app", "mp", "gb", "a", "b", "i ", "T", " ", "一", "三", "十", "点", "五g", "c n n", "的")


def read_table() -> dict[str, str]:
    """Returns the written forms, keyed by spoken form."""
    with open(paths.ROOT / "docs" / "written-form.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert rows[0] == ["spoken", "written"]
    table = dict(rows[1:])
    assert len(table) == len(rows) - 1
    return table


def make_texts(seed: int, count: int) -> list[str]:
    """Mixes numerals, characters from the rules, other characters, and parts of phrases in the table."""
    rng = random.Random(seed)
    with open(written_form.PATH, encoding="utf-8") as file:
        known = sorted(set(re.findall("[^ -~]", file.read())))
    phrases = list(read_table())
    return [_make_text(rng, known, phrases) for _ in range(count)]


def make_latin_texts(seed: int, count: int) -> list[str]:
    """Mixes Latin words and single letters with spaces and numerals."""
    rng = random.Random(seed)
    return ["".join(rng.choices(_LATIN, k=rng.randint(1, 10))) for _ in range(count)]


def _make_text(rng: random.Random, known: list[str], phrases: list[str]) -> str:
    sources = (_NUMERALS, known, "天，的了abC 人在𠮷😀\n", None)
    text = ""
    for _ in range(rng.randint(1, 15)):
        source = rng.choices(sources, (10, 5, 2, 3))[0]
        text += rng.choice(source) if source else _cut(rng, rng.choice(phrases))
    return text


def _cut(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text))
    return text[start : start + rng.randint(1, 6)]
