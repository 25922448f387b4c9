from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.diagnostics import ctc_check
from estimator_asr.models import losses

SESSION = tf.compat.v1.ConfigProto(allow_soft_placement=True)


@pytest.fixture
def lines(monkeypatch):
    said = []
    for level in ("info", "warning"):
        monkeypatch.setattr(ctc_check.logging, level, lambda text, *values: said.append(text % values))
    return said


def test_a_cudnn_kernel_that_does_not_run_is_replaced(lines):
    assert ctc_check.choose_kernel(SESSION) == losses.CLASSIC  # cuDNN's has no CPU implementation
    (line,) = lines
    assert line.startswith("ctc: kernel cudnn on GPU cannot be used: ") and "CTCLossV2" in line
    assert line.endswith("; the slower CPU kernel is used")


def test_a_cudnn_kernel_that_agrees_is_chosen(lines, monkeypatch):
    monkeypatch.setitem(losses.KERNELS, losses.CUDNN, losses.KERNELS[losses.CLASSIC])
    assert ctc_check.choose_kernel(SESSION) == losses.CUDNN
    assert lines == ["ctc: kernel cudnn on GPU, difference from the CPU kernel 0e+00"]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda loss, logits: 1.01 * loss, 0.01),  # loss and gradient
        (lambda loss, logits: loss + tf.stop_gradient(0.002 * loss), 0.002),  # the loss alone
        (lambda loss, logits: loss * np.nan, np.inf),
        (lambda loss, logits: loss + 0.1 * tf.reduce_sum(logits - tf.stop_gradient(logits), [1, 2]), 0.1),
    ],
)
def test_a_cudnn_kernel_that_is_wrong_is_replaced(change, difference, lines, monkeypatch):
    classic = losses.KERNELS[losses.CLASSIC]
    monkeypatch.setitem(losses.KERNELS, losses.CUDNN, lambda *args: change(classic(*args), args[1]))
    assert ctc_check.measure_difference(SESSION) == pytest.approx(difference, rel=0.5)
    assert ctc_check.choose_kernel(SESSION) == losses.CLASSIC
    (line,) = lines
    assert "difference from the CPU kernel is" in line and "expected at most 1e-03" in line


def test_a_gradient_at_padding_is_refused_however_small(monkeypatch):
    batch = ctc_check.hard_cases()
    is_padding = np.arange(12) >= batch.num_frames[:, None]

    def spoil(*args):
        loss, gradient = build(*args)
        return loss, gradient + 1e-30 * is_padding[:, :, None]

    build = ctc_check._build
    monkeypatch.setitem(losses.KERNELS, losses.CUDNN, losses.KERNELS[losses.CLASSIC])
    monkeypatch.setattr(ctc_check, "_build", spoil)
    assert ctc_check.measure_difference(SESSION) == np.inf


def test_hard_cases_have_losses_where_there_is_an_alignment():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loss, gradient = session.run(ctc_check._build(ctc_check.hard_cases(), losses.CLASSIC))
    # 2, 2, 2 needs its 5 frames; 3, 3 has one frame too few; then no labels, which are blanks, and no frames.
    assert (loss > 0).tolist() == [True, True, True, True, False, True, False]
    assert gradient.any(axis=(1, 2)).tolist() == (loss > 0).tolist()
