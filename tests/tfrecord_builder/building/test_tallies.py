import random

from tfrecord_builder.building import tallies


def test_keys_are_strings_and_repeat():
    tally = {}
    tallies.count(tally, -3)
    tallies.count_all(tally, ["a", "-3", "a"])
    assert tally == {"-3": 2, "a": 2}
    tallies.add(tally, {"a": 1, "b": 5})
    assert tally == {"-3": 2, "a": 3, "b": 5}


def test_the_ten_largest_are_kept_whatever_the_order_and_the_parts():
    entries = [[i // 3, f"u{i:02d}", "x.wav", 0.0, None] for i in range(40)]
    expected = sorted(entries, key=lambda entry: (-entry[0], entry[1]))[:10]
    for seed in range(5):
        random.Random(seed).shuffle(entries)
        parts = [[], [], []]
        for i, entry in enumerate(entries):
            tallies.keep(parts[i % 3], entry)
        total = []
        for part in parts:
            for entry in part:
                tallies.keep(total, entry)
        assert total == expected
