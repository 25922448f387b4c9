"""Pinyin to hanzi by the language model alone, as TensorFlow operations."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.experiment import model_directory
from estimator_asr.saved_model import cascade, item_checks, sequences, statuses

_SPACES = r"[\pZ\x{85}\x{FEFF}]+"  # of Unicode, and the byte order mark
MAX_SYLLABLES = 10 * statuses.MAX_SECONDS  # nobody speaks faster


def transcribe(language: model_directory.ModelDirectory, pinyin: tf.Tensor) -> dict[str, tf.Tensor]:
    """Builds the language model, sharing its variables with the cascade.

    Args:
        language: the model.
        pinyin: string [batch], syllables separated by spaces of any kind; those that the model lacks are its
            <unk>, anything else is written as it is.

    Returns:
        transcript (string), language_score (float32, log probability) and status (string), [batch]: malformed
        if it is not UTF-8, empty without a syllable, too_long above MAX_SYLLABLES.
    """
    spaced = tf.strings.regex_replace(pinyin, _SPACES, " ")
    status = _check(pinyin, tf.strings.split(spaced).row_lengths())
    ok = tf.where(tf.equal(status, statuses.OK), spaced, "")
    tokens = tf.strings.split(tf.concat([ok, [""]], 0))  # a row more: no layer gets an empty axis
    counts = tf.cast(tokens.row_lengths(), tf.int32)
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE):
        written = cascade.convert(language, tokens.to_tensor(), counts)
    outputs = {"transcript": sequences.join(written, "character"), "language_score": written.scores}
    return {**item_checks.clear(outputs, status), "status": status}


def _check(pinyin: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    is_text = tf.equal(tf.strings.unicode_transcode(pinyin, "UTF-8", "UTF-8"), pinyin)
    status = tf.where(counts > MAX_SYLLABLES, statuses.TOO_LONG, statuses.OK)
    status = tf.where(tf.equal(counts, 0), statuses.EMPTY, status)
    return tf.where(is_text, status, statuses.MALFORMED)
