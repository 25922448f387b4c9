"""Which kernel computes the CTC loss here: one for the device that gives the reference's results."""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr.diagnostics import ctc_reference
from estimator_asr.models import losses
from tfrecord_builder import errors

TOLERANCE = 1e-3  # relative to the largest loss and to the largest gradient
_DEVICES = {losses.CLASSIC: "CPU", losses.CUDNN: "GPU"}
_UTTERANCES, _FRAMES, _LABELS = 16, 100, 25  # a usual batch behind the subsampling
_TIMED_RUNS = 3


class Batch(NamedTuple):
    """Arguments of losses.ctc_loss as numpy arrays."""

    logits: np.ndarray
    num_frames: np.ndarray
    token_ids: np.ndarray
    num_tokens: np.ndarray


def choose_kernel(num_classes: int, has_gpu: bool, session_config: tf.compat.v1.ConfigProto) -> str:
    """Returns the kernel to train with, and logs how far it is from the reference and how long it takes.

    Args:
      num_classes: of the model, the blank included.
      has_gpu: whether the model will run on one.
      session_config: of the session that will train.

    Raises:
      errors.UserError: no kernel that there is computes the loss rightly.
    """
    for kernel in (losses.CUDNN, losses.CLASSIC) if has_gpu else (losses.CLASSIC,):
        try:
            difference = measure_difference(kernel, session_config)
            seconds = measure_seconds(kernel, num_classes, session_config)
        except tf.errors.OpError as error:
            problem = f"{type(error).__name__} ({error.message.strip().splitlines()[-1].strip()})"
        else:
            if difference <= TOLERANCE:
                logging.info("%s", _describe(kernel, difference, seconds))
                return kernel
            problem = f"self-check {difference:.0e}, expected at most {TOLERANCE:.0e}"
        logging.warning("ctc: kernel %s on %s cannot be used: %s", kernel, _DEVICES[kernel], problem)
    raise errors.UserError(
        f"ctc: kernel {kernel} on {_DEVICES[kernel]} does not compute the loss ({problem}), expected the "
        "reference's results; install the pinned TensorFlow again."
    )


def _describe(kernel, difference, seconds):
    return (
        f"ctc: kernel {kernel} on {_DEVICES[kernel]}, self-check {difference:.0e}, "
        f"{1000 * seconds:.0f} ms for {_UTTERANCES} x {_FRAMES} frames"
    )


def measure_difference(kernel: str, session_config: tf.compat.v1.ConfigProto) -> float:
    """Returns the largest relative difference from the reference, over losses and gradients of hard cases.

    Infinite if a gradient at padding is not exactly zero, or anything is no number.
    """
    batch = hard_cases()
    with tf.Graph().as_default(), tf.compat.v1.Session(config=session_config) as session:
        found = session.run(_build(batch, kernel))
    return compare(batch, *found)


def compare(batch: Batch, found_losses: np.ndarray, found_gradient: np.ndarray) -> float:
    """Returns what measure_difference does, for losses [batch] and a gradient of the shape of the logits."""
    wanted_losses, wanted_gradient = reference(batch)
    padding = np.arange(batch.logits.shape[1]) >= batch.num_frames[:, None]
    is_sound = np.isfinite(found_losses).all() and np.isfinite(found_gradient).all()
    if not is_sound or found_gradient[padding].any():
        return np.inf
    pairs = ((found_losses, wanted_losses), (found_gradient, wanted_gradient))
    return max(float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted))) for found, wanted in pairs)


def reference(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Returns float64 losses [batch], and their gradient by the logits."""
    wanted_losses, wanted_gradient = np.zeros(len(batch.logits)), np.zeros(batch.logits.shape)
    for row, (logits, num_frames, ids, num_ids) in enumerate(zip(*batch)):
        wanted_losses[row], wanted_gradient[row, :num_frames] = ctc_reference.loss_and_gradient(
            logits[:num_frames], ids[:num_ids]
        )
    return wanted_losses, wanted_gradient


def hard_cases() -> Batch:
    """Returns utterances with repeats, padding, as many frames as needed, too few, no labels, no frames."""
    labels = [[1, 2, 3, 4], [0, 0, 5], [2, 2, 2], [4], [3, 3], [], [5]]
    num_frames = [12, 9, 5, 7, 2, 12, 0]
    rng = np.random.default_rng(1)
    token_ids = np.zeros([len(labels), 4], np.int32)
    for row, ids in enumerate(labels):
        token_ids[row, : len(ids)] = ids
    return Batch(
        3 * rng.standard_normal([len(labels), 12, 7], np.float32),
        np.array(num_frames, np.int32),
        token_ids,
        np.array([len(ids) for ids in labels], np.int32),
    )


def measure_seconds(kernel: str, num_classes: int, session_config: tf.compat.v1.ConfigProto) -> float:
    """Returns the time of loss and gradient of a usual batch: the median of a few runs."""
    rng = np.random.default_rng(1)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=session_config) as session:
        batch = Batch(
            tf.random.stateless_normal([_UTTERANCES, _FRAMES, num_classes], [1, 2]),
            np.full(_UTTERANCES, _FRAMES, np.int32),
            rng.integers(0, num_classes - 1, [_UTTERANCES, _LABELS], np.int32),
            np.full(_UTTERANCES, _LABELS, np.int32),
        )
        logits = tf.compat.v1.get_local_variable("logits", initializer=batch.logits)
        # Sums are fetched, because a group of operations without effect is optimised away.
        work = [tf.reduce_sum(each) for each in _build(batch._replace(logits=logits), kernel)]
        session.run(logits.initializer)
        session.run(work)
        return statistics.median(_time(session, work) for _ in range(_TIMED_RUNS))


def _time(session, work):
    started = time.perf_counter()
    session.run(work)
    return time.perf_counter() - started


def _build(batch, kernel):
    logits = tf.convert_to_tensor(batch.logits)
    numbers = (tf.constant(each) for each in batch[1:])
    found = losses.ctc_loss(logits, *numbers, kernel=kernel)
    return found, tf.gradients(found, logits)[0]
