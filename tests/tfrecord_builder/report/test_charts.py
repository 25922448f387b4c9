from tfrecord_builder.report import charts


def test_few_numbers_have_one_bar_each():
    chart = charts.histogram("Lengths", {"train": {"9": 4, "11": 1}, "dev": {"9": 1}}, 10, "s")
    assert (chart.title, chart.highest) == ("Lengths", 5)
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
    assert chart.bars[0] == charts.Bar("0 to 0.5 s", "0", {"train": 4})  # 3 and 4
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
