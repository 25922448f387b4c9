"""Characters are replaced with characters that sound alike."""

import collections

import pytest

from tfrecord_builder.labels import homophones


def test_only_hanzi_are_counted():
    assert homophones.count_hanzi(["好a好，", "是1"]) == {"好": 2, "是": 1}


def test_frequent_characters_and_the_same_tone_are_preferred(monkeypatch):
    """是 and 事 are shi4, 时 is shi2: the weight of 是 is 10, that of 时 is 0.2 * 20."""
    monkeypatch.setattr(homophones, "RATE", 1.0)
    sounds = homophones.Homophones({"是": 10, "事": 3, "时": 20, "马": 7, "a": 3})
    found = collections.Counter(sounds.replace("事" * 2000, "seed"))
    assert set(found) == {"是", "时"}
    assert found["是"] / 2000 == pytest.approx(10 / 14, abs=0.04)
    assert sounds.replace("马a b？", "seed") == "马a b？"  # these characters have no homophones


def test_three_of_a_hundred_characters_are_replaced_and_the_seed_decides_which():
    sounds = homophones.Homophones({"是": 10, "事": 3})
    text = "是" * 5000
    replaced = sounds.replace(text, "seed")
    assert replaced == sounds.replace(text, "seed") != sounds.replace(text, "other")
    assert replaced.count("事") / 5000 == pytest.approx(0.03, abs=0.01)
