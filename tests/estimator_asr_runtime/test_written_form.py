"""The written form of numbers, on the table of docs/written-form.tsv and on random text."""

from __future__ import annotations

import csv

import paths
import pytest

from estimator_asr_runtime import written_form

Piece = written_form.Piece


@pytest.fixture(scope="module")
def form():
    return written_form.load()


def read_table() -> list[tuple[str, str]]:
    with open(paths.ROOT / "docs" / "written-form.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert rows[0] == ["spoken", "written"]
    return [(spoken, written) for spoken, written in rows[1:]]


def test_table(form):
    table = read_table()
    wrong = [
        (spoken, written, form.write(spoken)) for spoken, written in table if form.write(spoken) != written
    ]
    assert len(table) >= 300 and not wrong


def test_pieces_name_the_characters_they_come_from(form):
    assert form.rewrite("增长百分之十二点五，下午三点半见") == [
        Piece("增长", 0, 2),
        Piece("12.5%", 2, 9),
        Piece("，下午", 9, 12),
        Piece("3", 12, 13),
        Piece("点半见", 13, 16),
    ]
    assert form.rewrite("a 三二零") == [Piece("A", 0, 1), Piece("", 1, 2), Piece("320", 2, 5)]
    assert form.rewrite("") == []


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("今天天气", 4),
        ("二零二六年", 0),  # 年 may be followed by 级
        ("他等了二十", 3),  # 二十 may become 二十一 or 二十多
        ("他等了二十分钟，", 8),
        ("电话一三八零零", 2),
    ],
)
def test_settled_length(form, text, settled):
    assert form.settled_length(text) == settled
