"""Statuses of waveforms and features, values that reach the models, and cleared outputs."""

import re

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.exporting.saved_model import item_checks
from tfrecord_builder.audio import frontend

CONFIG = frontend.FrontendConfig()  # 16 kHz, frames of 400 samples, one every 160
LOUD = [0.1, -0.1] * 250


def feed(values, dtype):
    """Returns a tensor whose shape is unknown when the graph is built."""
    constant = tf.constant(values, dtype)
    return tf.compat.v1.placeholder_with_default(constant, [None] * constant.shape.rank)


def check_waveforms(rows, num_samples):
    return run_check(item_checks.check_waveforms, rows, num_samples)


def check_features(fbank, num_frames):
    return run_check(item_checks.check_features, fbank, num_frames)


def run_check(check, values, lengths):
    """Checks items that may last at most a second."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(check(feed(values, tf.float32), feed(lengths, tf.int32), CONFIG, 1))


@pytest.mark.parametrize(
    ("row", "num_samples", "status"),
    [
        (LOUD, 500, "ok"),
        (LOUD, 400, "ok"),
        (LOUD, 399, "empty"),
        (LOUD, 0, "empty"),
        ([np.nan] * 500, 399, "empty"),
        ([*LOUD[:450], *[np.nan] * 50], 450, "ok"),
        ([*LOUD[:450], *[np.nan] * 50], 451, "not_finite"),
        ([*LOUD[:450], np.inf, *LOUD[:49]], 500, "not_finite"),
        ([*LOUD[:450], -np.inf, *LOUD[:49]], 500, "not_finite"),
        ([*LOUD[:450], 1.1e12, *LOUD[:49]], 500, "not_finite"),
        ([*LOUD[:450], -9e11, *LOUD[:49]], 500, "ok"),
        ([0.0] * 500, 500, "silent"),
        ([0.00049, -0.00049] * 250, 500, "silent"),
        ([0.0] * 499 + [-0.0005], 500, "ok"),
        ([0.0] * 499 + [1.0], 499, "silent"),
    ],
)
def test_status_of_a_waveform(row, num_samples, status):
    items = check_waveforms([row], [num_samples])
    assert items.status.tolist() == [status.encode()]
    wanted = num_samples if status == "ok" else 0
    assert items.lengths.tolist() == [wanted]
    assert items.values.shape == (1, 500)
    np.testing.assert_array_equal(items.values[0, :wanted], np.float32(row[:wanted]))
    assert not items.values[0, wanted:].any()


def test_a_waveform_longer_than_the_limit():
    rows = [[0.1] * 16001] * 2
    items = check_waveforms(rows, [16000, 16001])
    assert items.status.tolist() == [b"ok", b"too_long"]
    assert items.values.shape == (2, 16000)  # the long item takes no additional memory


def test_rejected_items_and_padding_are_zero():
    items = check_waveforms([[np.nan] * 500, LOUD, LOUD], [415, 420, 410])
    assert items.lengths.tolist() == [0, 420, 410]
    assert items.values.shape == (3, 500)
    assert not items.values[0].any() and not items.values[2, 410:].any()
    np.testing.assert_array_equal(items.values[1, :420], np.float32(LOUD[:420]))
    assert not items.values[1, 420:].any()


@pytest.mark.parametrize("lengths", [[-1, 2], [0, 501], [500], [1, 2, 3]])
def test_lengths_that_do_not_fit_are_refused(lengths):
    message = (
        f"[E_LENGTHS: num_samples is [{' '.join(map(str, lengths))}], expected one length from 0 to 500 for "
        "each of the 2 rows of waveform; send the true lengths]"
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
        check_waveforms([LOUD, LOUD], lengths)


def test_a_batch_of_no_waveforms():
    items = check_waveforms(np.zeros([0, 500]), [])
    assert (items.values.shape, items.lengths.shape, items.status.shape) == ((0, 500), (0,), (0,))


def test_status_of_features():
    fbank = np.ones([5, 99, 3])
    fbank[1, 4, 2], fbank[2, 7, 0], fbank[3, 0, 0] = np.nan, np.inf, 1e13
    items = check_features(fbank, [3, 5, 7, 9, 0])
    assert items.status.tolist() == [b"ok", b"not_finite", b"ok", b"ok", b"empty"]
    assert items.values.shape == (5, 99, 3)
    assert np.isfinite(items.values).all()
    assert not items.values[1].any() and not items.values[2, 7:].any()


@pytest.mark.parametrize("value", [1e38, -3e37, 1.1e14])
def test_features_whose_squares_would_overflow_are_not_finite(value):
    fbank = np.ones([2, 9, 3])
    fbank[1, 4, 2] = value
    assert check_features(fbank, [9, 9]).status.tolist() == [b"ok", b"not_finite"]
    assert check_features(fbank, [9, 4]).status.tolist() == [b"ok", b"ok"]


def test_features_longer_than_the_limit_are_too_long():
    items = check_features(np.ones([2, 99, 3]), [98, 99])  # 1 + (16000 - 400) / 160 is 98.5
    assert items.status.tolist() == [b"ok", b"too_long"]


@pytest.mark.parametrize("lengths", [[-1, 2], [0, 6], [5]])
def test_lengths_of_features_that_do_not_fit_are_refused(lengths):
    message = (
        r"num_frames is \[.*\], expected one length from 0 to 5 for each of the 2 rows of fbank; send the "
        "true lengths"
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        check_features(np.ones([2, 5, 3]), lengths)


def test_the_first_problem_is_the_status(session):
    columns = [["ok", "ok", "malformed"], ["ok", "silent", "empty"], ["empty", "empty", "empty"]]
    found = session.run(item_checks.first_problem(*map(tf.constant, columns)))
    assert found.tolist() == [b"empty", b"silent", b"malformed"]


def test_outputs_of_rejected_items_are_cleared(session):
    outputs = {
        "transcript": ["你好", "是", "x"],
        "acoustic_score": [-1.5, np.nan, -2.0],
        "characters.character": [["你", "好"], ["是", ""], ["x", ""]],
        "characters.start": [[0.5, 0.75], [np.inf, 0.0], [1.0, 0.0]],
        "n_best.transcript": [["你好", ""], ["是", "事"], ["x", ""]],
        "n_best.score": [[-1.0, -np.inf], [-1.0, -2.0], [-3.0, -np.inf]],
    }
    tensors = {name: tf.constant(value) for name, value in outputs.items()}
    found = session.run(item_checks.clear(tensors, tf.constant(["ok", "silent"])))
    assert {name: value.tolist() for name, value in found.items()} == {
        "transcript": ["你好".encode(), b""],
        "acoustic_score": [-1.5, 0.0],
        "characters.character": [["你".encode(), "好".encode()], [b"", b""]],
        "characters.start": [[0.5, 0.75], [0.0, 0.0]],
        "n_best.transcript": [["你好".encode(), b""], [b"", b""]],
        "n_best.score": [[-1.0, -np.inf], [0.0, np.finfo(np.float32).min]],
    }
