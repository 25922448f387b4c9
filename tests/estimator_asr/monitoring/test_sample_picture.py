import io
import itertools

import matplotlib.figure
import matplotlib.image
import matplotlib.text
import numpy as np
import pytest

from estimator_asr.monitoring import sample_picture

FRAMES, SUBSAMPLED = 100, 25


def make_picture(**changes):
    values = {
        "lines": ["u1", "reference:  ni3 hao3"],
        "fbank": np.zeros([FRAMES, 20], np.float32),
        "frame_seconds": 0.01,
        "subsampling": 4,
        "names": ["ni3", "hao3"],
        "probabilities": np.zeros([SUBSAMPLED, 2], np.float32),
        "spans": [(2, 5), (10, 13)],
        "attention": np.zeros([3, SUBSAMPLED], np.float32),
    }
    return sample_picture.Picture(**{**values, **changes})


def draw(**changes):
    return matplotlib.image.imread(io.BytesIO(sample_picture.draw(make_picture(**changes))))[..., :3]


def test_the_width_grows_with_the_seconds_within_limits():
    assert draw().shape[1] == 5 * 80
    assert draw(fbank=np.zeros([6000, 20], np.float32), probabilities=np.zeros([1500, 2])).shape[1] == 24 * 80


def test_without_a_decoder_there_is_no_attention_panel():
    assert draw(attention=None).shape[0] < draw().shape[0]


@pytest.mark.long
def test_alignment_probabilities_and_attention_are_visible():
    plain = draw()
    peak = np.zeros([SUBSAMPLED, 2], np.float32)
    peak[3, 0] = 1.0
    for changes in ({"spans": []}, {"probabilities": peak}, {"attention": np.ones([3, SUBSAMPLED])}):
        assert (np.abs(draw(**changes) - plain) > 0.1).sum() > 100, changes


def test_labels_are_drawn_at_their_aligned_times():
    marked = draw(spans=[(0, 5), (20, 25)], names=["", ""])
    plain = draw(spans=[], names=["", ""])
    columns = np.flatnonzero((np.abs(marked - plain) > 0.05).any(axis=(0, 2)))
    gaps = np.flatnonzero(np.diff(columns) > 1)
    assert len(gaps) == 1  # there are two stripes: the first and the last fifth of the second
    first, last = columns[: gaps[0] + 1], columns[gaps[0] + 1 :]
    assert abs(len(first) - len(last)) <= 2
    # Edges are rounded to pixels; an error of one pixel in the width counts four times.
    assert abs((last[0] - first[0]) - 4 * len(first)) <= 5


@pytest.mark.parametrize(
    ("centers", "places"),
    [
        ([1.0, 3.0], [1.0, 3.0]),
        ([1.0, 1.2, 1.4, 8.0], [1.0, 1.5, 2.0, 8.0]),
        ([9.0, 9.7, 9.8], [9.0, 9.5, 10.0]),
        ([], []),
    ],
)
def test_labels_that_would_overlap_are_moved(centers, places):
    assert list(sample_picture.spread(np.array(centers), 0.5, 10.0)) == pytest.approx(places)


@pytest.mark.parametrize("num_names, rotation", [(5, 0), (8, 90), (25, 90)])
def test_labels_do_not_overlap_and_are_vertical_only_if_there_are_many(monkeypatch, num_names, rotation):
    figures, subplots = [], matplotlib.figure.Figure.subplots

    def spy(figure, *args, **options):
        figures.append(figure)
        return subplots(figure, *args, **options)

    monkeypatch.setattr(matplotlib.figure.Figure, "subplots", spy)
    draw(names=["zhuang4"] * num_names, spans=[(i // 4, i // 4 + 1) for i in range(num_names)])
    labels = figures[0].axes[0].texts
    boxes = [matplotlib.text.Text.get_window_extent(label) for label in labels]  # without the leaders
    assert [label.get_rotation() for label in labels] == [rotation] * num_names
    assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(boxes))
    assert boxes[0].x0 >= 0 and boxes[-1].x1 <= figures[0].bbox.x1


@pytest.mark.filterwarnings("error")
def test_text_between_dollars_and_hanzi_are_drawn_without_warnings():
    draw(names=["$a$", "好"], lines=["$\\frac$", "你好"])
