from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.diagnostics import ctc_check
from estimator_asr.models import losses
from tfrecord_builder import errors

SESSION = tf.compat.v1.ConfigProto(allow_soft_placement=True)


@pytest.fixture
def lines(monkeypatch):
    said = []
    for level in ("info", "warning"):
        monkeypatch.setattr(ctc_check.logging, level, lambda text, *values: said.append(text % values))
    return said


def test_the_cpu_has_the_classic_kernel_and_says_how_far_and_how_fast(lines):
    assert ctc_check.choose_kernel(20, False, SESSION) == losses.CLASSIC
    (line,) = lines
    assert re.fullmatch(
        r"ctc: kernel classic on CPU, self-check \de-0[5-9], \d+ ms for 16 x 100 frames", line
    )


def test_a_gpu_whose_kernel_does_not_run_has_the_classic_one(lines):
    assert ctc_check.choose_kernel(20, True, SESSION) == losses.CLASSIC  # there is no kernel without a GPU
    assert lines[0].startswith("ctc: kernel cudnn on GPU cannot be used: ") and "CTCLossV2" in lines[0]
    assert "kernel classic on CPU" in lines[1]


def test_a_gpu_has_cudnn_where_it_is_right(lines, monkeypatch):
    monkeypatch.setitem(losses.KERNELS, losses.CUDNN, losses.KERNELS[losses.CLASSIC])
    assert ctc_check.choose_kernel(20, True, SESSION) == losses.CUDNN
    assert "kernel cudnn on GPU, self-check" in lines[0] and len(lines) == 1


def spoil(change):
    """A kernel that gives other losses."""
    return lambda labels, logits, num_frames: change(losses._classic(labels, logits, num_frames), logits)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda loss, logits: 1.01 * loss, 0.01),  # loss and gradient
        (lambda loss, logits: loss + tf.stop_gradient(0.002 * loss), 0.002),  # the loss alone
        (lambda loss, logits: loss * np.nan, np.inf),
        (lambda loss, logits: loss + 0.1 * tf.reduce_sum(logits - tf.stop_gradient(logits), [1, 2]), 0.1),
    ],
)
def test_a_kernel_that_is_wrong_is_refused(change, difference, lines, monkeypatch):
    monkeypatch.setitem(losses.KERNELS, losses.CLASSIC, spoil(change))
    found = ctc_check.measure_difference(losses.CLASSIC, SESSION)
    assert found == pytest.approx(difference, rel=0.5)
    said = (
        r"kernel classic on CPU does not compute the loss \(self-check .*, expected at most 1e-03\), expected"
    )
    with pytest.raises(errors.UserError, match=said):
        ctc_check.choose_kernel(20, False, SESSION)
    assert lines[0].startswith("ctc: kernel classic on CPU cannot be used: self-check")


def test_a_gradient_behind_the_last_frame_is_refused_however_small():
    batch = ctc_check.hard_cases()
    loss, gradient = ctc_check.reference(batch)
    assert ctc_check.compare(batch, loss, gradient) == 0
    gradient[1, batch.num_frames[1], 0] = 1e-30
    assert ctc_check.compare(batch, loss, gradient) == np.inf


def test_hard_cases_hold_what_kernels_differ_in():
    batch = ctc_check.hard_cases()
    loss, gradient = ctc_check.reference(batch)
    # 2, 2, 2 needs its 5 frames; 3, 3 has one too few; then no labels, no frames.
    assert (loss > 0).tolist() == [True, True, True, True, False, False, False]
    assert len(set(batch.num_frames)) > 3 and batch.num_frames.max() == batch.logits.shape[1]
    assert not gradient[4:].any() and gradient[:4].any(axis=(1, 2)).all()
