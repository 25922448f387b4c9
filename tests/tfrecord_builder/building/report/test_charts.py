from tfrecord_builder.building.report import charts


def test_few_numbers_have_one_bar_each():
    chart = charts.histogram("Lengths", {"train": {"9": 4, "11": 1}, "dev": {"9": 1}}, 10, "s")
    assert (chart.title, chart.highest) == ("Lengths (s)", 5)
    assert chart.bars == [
        charts.Bar("0.9 to 1 s", "0.9", {"train": 4, "dev": 1}),
        charts.Bar("1 to 1.1 s", "1", {"train": 0, "dev": 0}),
        charts.Bar("1.1 to 1.2 s", "1.1", {"train": 1, "dev": 0}),
    ]
    assert [bar.title for bar in chart.bars] == [
        "0.9 to 1 s: 4 train, 1 dev",
        "1 to 1.1 s: 0",
        "1.1 to 1.2 s: 1 train",
    ]


def test_many_numbers_share_bars():
    chart = charts.histogram("Lengths", {"train": {str(i): 2 for i in range(3, 303)}}, 10, "s")
    assert chart.bars[0] == charts.Bar("0 to 0.5 s", "0", {"train": 4})  # the keys 3 and 4
    assert chart.bars[1] == charts.Bar("0.5 to 1 s", "", {"train": 10})
    assert len(chart.bars) == 61 and sum(bar.counts["train"] for bar in chart.bars) == 600
    assert [bar.label for bar in chart.bars if bar.label] == ["0", "5", "10", "15", "20", "25", "30"]


def test_negative_numbers_are_levels():
    chart = charts.histogram("Levels", {"train": {"-21": 1, "-20": 1, "0": 1}}, 1, "dBFS")
    assert [bar.title for bar in chart.bars if any(bar.counts.values())] == [
        "-21 to -20 dBFS: 1 train",
        "-20 to -19 dBFS: 1 train",
        "0 to 1 dBFS: 1 train",
    ]
    assert [bar.label for bar in chart.bars if bar.label][:3] == ["-20", "-18", "-16"]


def test_categories_keep_their_order():
    chart = charts.categories("Tones", {"train": {"2": 1, "1": 3}, "dev": {}}, "123")
    assert [bar.title for bar in chart.bars] == ["1: 3 train", "2: 1 train", "3: 0"]


def test_parts_of_syllables():
    counts = {"zhuang4": 3, "you3": 2, "dianr3": 1, "er2": 1, "r5": 1, "a": 4, "<unk>": 1}
    assert charts.count_sounds(counts, "syllable") == {
        "tones": {"4": 3, "3": 3, "2": 1, "5": 1, "other": 5},
        "initials": {"zh": 3, "none": 4, "d": 1},
        "finals": {"uang": 3, "iou": 2, "ian": 1, "er-hua": 1, "er": 2},
    }


def test_syllables_without_tones_have_no_tones():
    assert charts.count_sounds({"ma": 2, "yu": 1, "A": 1}, "toneless") == {
        "initials": {"m": 2, "none": 1},
        "finals": {"a": 2, "v": 1},
    }


def test_initials_and_finals_as_tokens():
    counts = {"zh": 3, "ong1": 2, "iou3": 1, "ianr3": 1, "er2": 1, "A": 1, "7": 1}
    assert charts.count_sounds(counts, "initial_final") == {
        "tones": {"1": 2, "3": 2, "2": 1, "other": 2},
        "initials": {"zh": 3},
        "finals": {"ong": 2, "iou": 1, "ian": 1, "er-hua": 1, "er": 1},
    }


def test_other_token_types_have_no_such_parts():
    assert charts.count_sounds({"ma1": 2}, "character") == charts.count_sounds({"ma1": 2}, "bpe") == {}
