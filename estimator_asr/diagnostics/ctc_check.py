"""CTC check: chooses cuDNN's kernel on a GPU if it computes the same as the CPU kernel ("classic")."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr.models import losses

TOLERANCE = 1e-3  # relative to the largest loss and to the largest gradient


class Batch(NamedTuple):
    """Arguments of losses.ctc_loss as numpy arrays."""

    logits: np.ndarray
    num_frames: np.ndarray
    token_ids: np.ndarray
    num_tokens: np.ndarray


def choose_kernel(session_config: tf.compat.v1.ConfigProto) -> str:
    """Returns the kernel to train with in sessions of this config on a GPU, and logs the choice."""
    try:
        difference = measure_difference(session_config)
    except tf.errors.OpError as error:
        problem = f"{type(error).__name__} ({error.message.strip().splitlines()[-1].strip()})"
    else:
        if difference <= TOLERANCE:
            logging.info("ctc: kernel cudnn on GPU, difference from the CPU kernel %.0e", difference)
            return losses.CUDNN
        problem = f"difference from the CPU kernel is {difference:.0e}, expected at most {TOLERANCE:.0e}"
    logging.warning("ctc: kernel cudnn on GPU cannot be used: %s; the slower CPU kernel is used", problem)
    return losses.CLASSIC


def measure_difference(session_config: tf.compat.v1.ConfigProto) -> float:
    """Returns the largest relative difference between the kernels over losses and gradients of hard cases.

    Infinite if a value is NaN or Inf, or a gradient at padding is not exactly zero.
    """
    batch = hard_cases()
    with tf.Graph().as_default(), tf.compat.v1.Session(config=session_config) as session:
        results = session.run([_build(batch, kernel) for kernel in (losses.CUDNN, losses.CLASSIC)])
    is_padding = np.arange(batch.logits.shape[1]) >= batch.num_frames[:, None]
    for loss, gradient in results:
        if not (np.isfinite(loss).all() and np.isfinite(gradient).all()) or gradient[is_padding].any():
            return np.inf
    return max(float(np.max(np.abs(got - want)) / np.max(np.abs(want))) for got, want in zip(*results))


def _build(batch, kernel):
    logits = tf.constant(batch.logits)
    loss = losses.ctc_loss(logits, *map(tf.constant, batch[1:]), kernel=kernel)
    return loss, tf.gradients(loss, logits)[0]


def hard_cases() -> Batch:
    """Returns utterances with repeats, padding, as many frames as needed, too few, no labels, no frames."""
    labels = [[1, 2, 3, 4], [0, 0, 5], [2, 2, 2], [4], [3, 3], [], [5]]
    rng = np.random.default_rng(1)
    token_ids = np.zeros([len(labels), 4], np.int32)
    for row, ids in enumerate(labels):
        token_ids[row, : len(ids)] = ids
    return Batch(
        3 * rng.standard_normal([len(labels), 12, 7], np.float32),
        np.array([12, 9, 5, 7, 2, 12, 0], np.int32),
        token_ids,
        np.array([len(ids) for ids in labels], np.int32),
    )
