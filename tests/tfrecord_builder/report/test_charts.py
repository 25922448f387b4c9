import pytest

from tfrecord_builder.report import charts


def test_few_numbers_have_a_bar_each():
    chart = charts.histogram("Lengths", {"train": {"9": 4, "11": 1}, "dev": {"9": 1}}, 10, "s")
    assert (chart.title, chart.highest) == ("Lengths", 5)
    first, second = chart.bars
    assert first.title == "0.9 to 1 s: 4 train, 1 dev"
    assert second.title == "1.1 to 1.2 s: 1 train"
    assert first.parts == (
        (charts.HEIGHT * 0.2, charts.HEIGHT * 0.8, 0),
        (0.0, pytest.approx(charts.HEIGHT * 0.2), 1),
    )
    assert second.parts == ((charts.HEIGHT * 0.8, charts.HEIGHT * 0.2, 0),)
    assert (first.x, second.x) == (0, charts.WIDTH * 2 / 3)
    assert [label for _, label in chart.ticks] == ["0.9", "1", "1.1"]


def test_many_numbers_share_bars_and_none_is_lost():
    tally = {str(i): 2 for i in range(3, 303)}
    chart = charts.histogram("Lengths", {"train": tally}, 10, "s")
    assert chart.bars[0].title == "0 to 0.5 s: 4 train"  # 3 and 4
    assert chart.bars[1].title == "0.5 to 1 s: 10 train"
    assert len(chart.bars) == 61 and len(chart.ticks) <= 13
    assert chart.ticks[1][1] == "5"
    counts = [int(bar.title.split(": ")[1].split()[0]) for bar in chart.bars]
    assert sum(counts) == 600


def test_negative_numbers_are_levels():
    chart = charts.histogram("Levels", {"train": {"-21": 1, "-20": 1, "0": 1}}, 1, "dBFS")
    assert [bar.title for bar in chart.bars] == [
        "-21 to -20 dBFS: 1 train",
        "-20 to -19 dBFS: 1 train",
        "0 to 1 dBFS: 1 train",
    ]
    assert [label for _, label in chart.ticks] == ["-20", "-18", "-16", "-14", "-12", "-10"] + [
        "-8",
        "-6",
        "-4",
        "-2",
        "0",
    ]


def test_categories_keep_their_order_and_their_gaps():
    chart = charts.categories("Tones", {"train": {"2": 1, "1": 3}, "dev": {}}, "123")
    assert [label for _, label in chart.ticks] == ["1", "2", "3"]
    assert [bar.title for bar in chart.bars] == ["1: 3 train", "2: 1 train"]
    assert chart.ticks[0][0] == pytest.approx(chart.bars[0].x + chart.bars[0].width / 2)
