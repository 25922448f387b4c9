"""Characters that sound alike replace each other."""

from __future__ import annotations

import collections

import pytest

from tfrecord_builder.labels import homophones


def test_hanzi_alone_are_counted():
    assert homophones.count_hanzi(["好a好，", "是1"]) == {"好": 2, "是": 1}


@pytest.fixture
def all_replaced(monkeypatch):
    monkeypatch.setattr(homophones, "RATE", 1.0)


@pytest.mark.usefixtures("all_replaced")
def test_frequent_characters_and_the_same_tone_are_preferred():
    # shi4: 是 事; shi2: 时. 事 is replaced by 是 (10 of 14) or by 时 (0.2 x 20 of 14).
    sounds = homophones.Homophones({"是": 10, "事": 3, "时": 20, "马": 7})
    found = collections.Counter(sounds.replace("事" * 2000, "seed"))
    assert set(found) == {"是", "时"}
    assert found["是"] / 2000 == pytest.approx(10 / 14, abs=0.04)


@pytest.mark.usefixtures("all_replaced")
def test_a_character_without_homophones_stays():
    assert homophones.Homophones({"是": 10, "马": 7, "a": 3}).replace("马a b？", "seed") == "马a b？"


def test_three_of_a_hundred_characters_are_replaced_and_the_seed_decides_which():
    sounds = homophones.Homophones({"是": 10, "事": 3})
    text = "是" * 5000
    replaced = sounds.replace(text, "seed")
    assert replaced == sounds.replace(text, "seed") != sounds.replace(text, "other")
    assert replaced.count("事") / 5000 == pytest.approx(0.03, abs=0.01)
