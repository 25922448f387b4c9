"""Adds marks to transcripts: where a mark follows a character depends on the text and on the pauses.

punctuate   characters (string [batch], separated by spaces) and pauses -> the mark after each character

Audio signatures of an export with a punctuation model have the outputs `punctuated` and `characters.mark`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import item_checks, statuses
from estimator_asr.models import layers, punctuation
from estimator_asr.models.tasks import tasks
from tfrecord_builder.data import dataset_info, marks, vocabulary

MAX_CHARACTERS = 1000  # longest text of the signature; the time grows with the square of the length
LONGEST_PAUSE = 1.0  # seconds; longer pauses count as this long


def build(model: model_directory.ModelDirectory) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Builds the signature, whose variables are shared with those of `punctuate`.

    Returns:
        The inputs, characters (string [batch], separated by spaces) and pauses (float32 [batch,
        max_characters], the silence after each character in seconds; 0 if it is not known); and the outputs:
        marks (string [batch, max_characters], "" where no mark follows), and status (string [batch]: ok,
        empty, malformed if the text is not UTF-8, or too_long).
    """
    text = tf.compat.v1.placeholder(tf.string, [None], "characters")
    pauses = tf.compat.v1.placeholder(tf.float32, [None, None], "pauses")
    checked = item_checks.check_rows("pauses", pauses, {"characters": text})
    counts = tf.cast(tf.strings.split(text).row_lengths(), tf.int32)
    is_text = tf.equal(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8"), text)
    status = tf.where(counts > MAX_CHARACTERS, statuses.TOO_LONG, statuses.OK)
    status = tf.where(tf.equal(counts, 0), statuses.EMPTY, status)
    status = tf.where(is_text, status, statuses.MALFORMED)
    # An extra row is added, so that no layer gets an empty batch.
    accepted = tf.concat([tf.where(tf.equal(status, statuses.OK), text, ""), [""]], 0)
    split = tf.strings.split(accepted)
    characters, counts = split.to_tensor(), tf.cast(split.row_lengths(), tf.int32)
    missing = [[0, 1], [0, tf.maximum(tf.shape(characters)[1] - tf.shape(checked)[1], 0)]]
    padded = tf.pad(checked, missing)[:, : tf.shape(characters)[1]]
    outputs = {"marks": find_marks(model, characters, counts, padded)}
    return {"characters": text, "pauses": pauses}, {**item_checks.clear(outputs, status), "status": status}


def punctuate(
    model: model_directory.ModelDirectory,
    outputs: Mapping[str, tf.Tensor],
    seconds: tf.Tensor,
    token_type: str,
) -> dict[str, tf.Tensor]:
    """Adds marks to transcripts.

    Args:
        model: the punctuation model.
        outputs: the outputs of cascade.transcribe.
        seconds: float32 [batch], length of the audio.
        token_type: type of the characters, which says how they are joined into text.

    Returns:
        punctuated (string [batch], the transcript with marks), and characters.mark (string [batch,
        max_characters], the mark after each character, or "").
    """
    characters, starts, ends = (outputs[f"characters.{name}"] for name in ("character", "start", "end"))
    is_character = tf.not_equal(characters, "")
    counts = tf.reduce_sum(tf.cast(is_character, tf.int32), axis=1)
    # The character after the last one starts, so to speak, at the end of the audio.
    next_starts = tf.pad(starts[:, 1:], [[0, 0], [0, tf.minimum(1, tf.shape(starts)[1])]])
    is_last = tf.equal(tf.range(tf.shape(characters)[1]), counts[:, None] - 1)
    pauses = tf.where(is_last, seconds[:, None], next_starts) - ends
    following = find_marks(model, characters, counts, pauses)
    marked = sequences.Sequences(tf.strings.join([characters, following]), counts, seconds, pauses)
    return {"punctuated": sequences.join(marked, token_type), "characters.mark": following}


def find_marks(
    model: model_directory.ModelDirectory, characters: tf.Tensor, num_characters: tf.Tensor, pauses: tf.Tensor
) -> tf.Tensor:
    """Returns the mark after each character, string [batch, max_characters], or "" where there is none.

    A pause of p seconds adds pause_weight x (min(p, LONGEST_PAUSE) - pause_offset) to the log odds of a mark.
    The last character is always followed by a mark, because speech ends there.

    Args:
        characters: string [batch, max_characters], padded with "".
        num_characters: int32 [batch].
        pauses: float32 [batch, max_characters], silence after each character in seconds.
    """
    ids = sequences.find_ids(model, dataset_info.CHARACTERS_FILE, characters)
    features = {"character_ids": layers.at_least_one(ids), "num_characters": num_characters}
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE):
        logits = tasks.for_model(model).build(features)[:, : tf.shape(characters)[1]]
    no_mark, *others = tf.unstack(punctuation.score(tf.cast(logits, tf.float32)), axis=2)
    is_last = tf.equal(tf.range(tf.shape(characters)[1]), num_characters[:, None] - 1)
    no_mark = tf.where(is_last, tf.float32.min, no_mark)
    bonus = weigh_pauses(pauses, model.decode)
    best = tf.argmax(tf.stack([no_mark, *(other + bonus for other in others)], axis=2), axis=2)
    # A space is no character that a mark could follow.
    may_follow = tf.sequence_mask(num_characters, tf.shape(characters)[1])
    may_follow &= tf.not_equal(characters, vocabulary.SPACE)
    return tf.where(may_follow, tf.gather(tf.constant(marks.MARKS), best), "")


def weigh_pauses(pauses: tf.Tensor | np.ndarray, config: config_lib.DecodeConfig) -> tf.Tensor | np.ndarray:
    """Returns what pauses, in seconds, add to the log odds of a mark; float32 of the same shape and kind."""
    clip = np.clip if isinstance(pauses, np.ndarray) else tf.clip_by_value
    return config.pause_weight * (clip(pauses, 0.0, LONGEST_PAUSE) - config.pause_offset)
