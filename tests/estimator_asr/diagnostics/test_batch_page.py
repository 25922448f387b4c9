from __future__ import annotations

import base64
import io

import matplotlib.image
import numpy as np

from estimator_asr.diagnostics import batch_page

RECORD = np.linspace(-5, 20, 12).astype(np.float32).reshape(4, 3)


def open_picture(url):
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))


def test_time_goes_to_the_right_and_frequency_up():
    values = np.zeros([4, 3], np.float32)
    values[3, 0] = 1  # the last frame, the lowest bin
    image = open_picture(batch_page.draw(values, cmap="gray", vmin=0, vmax=1))
    assert image.shape == (3, 4, 4)
    assert image[..., 0].tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]


def test_record_and_batch_have_one_scale_and_the_difference_is_where_they_differ():
    batch = RECORD.copy()
    batch[1] = 100  # beyond the scale
    pictures = {title: open_picture(url) for title, url in batch_page.draw_features(RECORD, batch).items()}
    record, masked, difference = pictures.values()
    assert list(pictures) == ["record", "batch", "batch - record, up to 98.2"]
    is_same = (record == masked).all(axis=(0, 2))
    assert is_same.tolist() == [True, False, True, True]
    assert (difference[:, [0, 2, 3]] == difference[0, 0]).all() and (
        difference[:, 1] != difference[0, 0]
    ).any()


def test_constant_features_and_other_shapes_can_be_drawn():
    assert list(batch_page.draw_features(0 * RECORD, 0 * RECORD))[2] == "batch - record, up to 1e-06"
    assert list(batch_page.draw_features(RECORD, RECORD[:2])) == ["record", "batch"]


def test_the_page_says_all_and_escapes_it(tmp_path):
    utterance = batch_page.Utterance(
        "u<1>", "你好", "ni3 hao3", "ni3 (9)", {"frames": "4", "masked": "5.0 %"}, {"record": "data:x"},
        "file:///c/a.wav#t=0", ["labels are 9, expected 1"],
    )  # fmt: skip
    path = tmp_path / "batches.html"
    batch_page.write(str(path), [("batch-00000.npz: step 0", [utterance])])
    html = path.read_text("utf-8")
    for said in (
        "u&lt;1&gt;", "你好", "ni3 (9)", "frames 4; masked 5.0 %", 'src="data:x"', "file:///c/a.wav#t=0",
        '<p class="wrong">labels are 9, expected 1</p>', "batch-00000.npz: step 0",
    ):  # fmt: skip
        assert said in html
