"""Checks each item in a batch, and hides the content of rejected items from the models."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.exporting.saved_model import statuses
from tfrecord_builder.audio import audio_files, frontend


class Items(NamedTuple):
    """Checked items. If items are too long, the batch is cut to the length of the longest other item.

    Rejections for other reasons keep the width, because a change would alter the last bits of other results.
    """

    values: tf.Tensor  # float32 [batch, max_length, ...], 0 at or beyond the lengths
    lengths: tf.Tensor  # int32 [batch], 0 for an item that is not ok
    status: tf.Tensor  # string [batch]


def check_waveforms(
    waveform: tf.Tensor, num_samples: tf.Tensor, config: frontend.FrontendConfig, max_seconds: int
) -> Items:
    """Checks waveforms, float32 [batch, max_samples], whose lengths are num_samples, int32 [batch]."""
    num_samples = _refuse_wrong_lengths("num_samples", num_samples, "waveform", waveform)
    peaks, is_finite = _find_peaks(waveform, num_samples)
    problems = {
        statuses.TOO_LONG: num_samples > max_seconds * config.sample_rate,
        statuses.EMPTY: tf.equal(frontend.num_frames(num_samples, config), 0),
        statuses.NOT_FINITE: ~is_finite | (peaks > statuses.LOUDEST_PEAK),
        statuses.SILENT: peaks < audio_files.SILENT_PEAK,
    }
    return _select(waveform, num_samples, problems)


def check_features(
    fbank: tf.Tensor, num_frames: tf.Tensor, config: frontend.FrontendConfig, max_seconds: int
) -> Items:
    """Checks features, float32 [batch, max_frames, num_bins], whose lengths are num_frames, int32 [batch]."""
    num_frames = _refuse_wrong_lengths("num_frames", num_frames, "fbank", fbank)
    peaks, is_finite = _find_peaks(fbank, num_frames)
    problems = {
        statuses.TOO_LONG: num_frames > frontend.num_frames(max_seconds * config.sample_rate, config),
        statuses.EMPTY: tf.equal(num_frames, 0),
        statuses.NOT_FINITE: ~is_finite | (peaks > statuses.LARGEST_FEATURE),
    }
    return _select(fbank, num_frames, problems)


def check_rows(name: str, values: tf.Tensor, others: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns `values`, [batch, ...]; the graph fails if any of `others` has a different number of rows."""
    checks = []
    for other, tensor in others.items():
        num_rows, wanted = tf.shape(tensor)[0], tf.shape(values)[0]
        message = f"E_ROWS: {other} has {{}} rows, expected {{}} as in {name}; send one row per item"
        message = tf.strings.format(message, (num_rows, wanted))
        checks.append(tf.debugging.Assert(tf.equal(num_rows, wanted), [message]))
    with tf.control_dependencies(checks):
        return tf.identity(values)


def split_texts(texts: tf.Tensor, most: int) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Splits texts, string [batch], at spaces; returns at most `most` parts per text, and statuses, [batch].

    Rejected texts have no parts. An extra row without parts is added, so that no layer gets an empty batch.
    """
    counts = tf.strings.split(texts).row_lengths()
    is_utf8 = tf.equal(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"), texts)
    status = tf.where(counts > most, statuses.TOO_LONG, statuses.OK)
    status = tf.where(tf.equal(counts, 0), statuses.EMPTY, status)
    status = tf.where(is_utf8, status, statuses.MALFORMED)
    accepted = tf.where(tf.equal(status, statuses.OK), texts, "")
    return tf.strings.split(tf.concat([accepted, [""]], 0)), status


def check_pieces(pieces: dict[str, tf.Tensor], largest: float, is_too_long: tf.Tensor) -> Items:
    """Checks pieces of streams, any of which may be empty.

    `pieces` has two tensors by input name: values, float32 [batch, max_length, ...], and lengths, int32
    [batch]. No magnitude may exceed `largest`. is_too_long, bool [batch], marks pieces that make their stream
    too long.
    """
    (values_name, values), (name, lengths) = pieces.items()
    lengths = _refuse_wrong_lengths(name, lengths, values_name, values)
    peaks, is_finite = _find_peaks(values, lengths)
    problems = {statuses.TOO_LONG: is_too_long, statuses.NOT_FINITE: ~is_finite | (peaks > largest)}
    return _select(values, lengths, problems)


def first_problem(*columns: tf.Tensor) -> tf.Tensor:
    """Returns each item's first status that is not ok, string [batch]; ok if there is none."""
    *earlier, status = columns
    for column in reversed(earlier):
        status = tf.where(tf.equal(column, statuses.OK), status, column)
    return status


def choose(status: tf.Tensor, values: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Returns `values`, [batch, ...], for items whose status is ok, and `others` for the rest."""
    is_ok = tf.reshape(tf.equal(status, statuses.OK), [-1] + [1] * (values.shape.rank - 1))
    return tf.where(is_ok, values, others)


def clear(outputs: dict[str, tf.Tensor], status: tf.Tensor) -> dict[str, tf.Tensor]:
    """Empties the outputs of rejected items (see cascade.transcribe), and drops rows beyond the batch."""
    num_items = tf.size(status)
    cleared = {}
    for name, value in outputs.items():
        value = value[:num_items]
        nothing = tf.zeros_like(value)
        if name == "n_best.score":  # a rejected item gets one empty transcript, with score 0
            nothing = tf.concat([nothing[:, :1], tf.fill(tf.shape(value[:, 1:]), tf.float32.min)], 1)
        cleared[name] = choose(status, value, nothing)
    return cleared


def _select(values: tf.Tensor, lengths: tf.Tensor, problems: dict[str, tf.Tensor]) -> Items:
    """Returns the items; an item's status is its first problem. `problems` maps a status to bool [batch]."""
    status = tf.fill(tf.shape(lengths), statuses.OK)
    for name, has_problem in reversed(problems.items()):
        status = tf.where(has_problem, name, status)
    is_too_long = tf.equal(status, statuses.TOO_LONG)
    longest = tf.reduce_max(tf.pad(tf.where(is_too_long, 0, lengths), [[0, 1]]))
    width = tf.where(tf.reduce_any(is_too_long), longest, tf.shape(values)[1])
    lengths = tf.where(tf.equal(status, statuses.OK), lengths, 0)
    return Items(_mask(values[:, :width], lengths), lengths, status)


def _mask(values: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Sets values at or beyond the lengths to zero."""
    is_value = tf.sequence_mask(lengths, tf.shape(values)[1])
    return tf.where(is_value if values.shape.rank == 2 else is_value[:, :, None], values, 0.0)


def _find_peaks(values: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns each item's largest absolute value, float32 [batch], and True if all its values are finite."""
    axes = list(range(1, values.shape.rank))
    magnitudes = tf.abs(_mask(values, lengths))
    return tf.reduce_max(magnitudes, axes), tf.reduce_all(tf.math.is_finite(magnitudes), axes)


def _refuse_wrong_lengths(name: str, lengths: tf.Tensor, values_name: str, values: tf.Tensor) -> tf.Tensor:
    """Returns the lengths; the graph fails unless each row of `values` has a length from 0 to its width."""
    num_rows, width = tf.shape(values)[0], tf.shape(values)[1]
    expected = f"one length from 0 to {{}} for each of the {{}} rows of {values_name}; send the true lengths"
    message = f"E_LENGTHS: {name} is {{}}, expected {expected}"
    message = tf.strings.format(message, (lengths, width, num_rows))
    fits = tf.equal(tf.size(lengths), num_rows) & tf.reduce_all((lengths >= 0) & (lengths <= width))
    with tf.control_dependencies([tf.debugging.Assert(fits, [message])]):
        return tf.identity(lengths)
