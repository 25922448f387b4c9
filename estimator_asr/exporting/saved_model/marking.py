"""Adds punctuation marks to transcripts, based on the text and on the pauses after its characters.

punctuate   characters (string [batch], separated by spaces) and pauses -> the mark after each character

Audio signatures of an export with a punctuation model have the outputs `punctuated` and `characters.mark`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import item_checks
from estimator_asr.models import layers, punctuation
from estimator_asr.models.tasks import tasks
from tfrecord_builder.data import dataset_info, marks, vocabulary

MAX_CHARACTERS = 1000  # maximum length of a text; computation time grows with its square
LONGEST_PAUSE = 1.0  # seconds; longer pauses count as this long
Array = tf.Tensor | np.ndarray
_IS_MARK = np.float32([mark != "" for mark in marks.MARKS])
_SPACES = f"([{''.join(marks.MARKS)}]) +"  # a mark, and the spaces after it, which are removed
_EXCLUDED = np.float32(-1e30)  # a score that is lower than any other


def build(model: model_directory.ModelDirectory) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Builds the signature, which shares its variables with `punctuate`.

    Returns:
        The inputs, characters (string [batch], separated by spaces) and pauses (float32 [batch,
        max_characters], the silence after each character in seconds; 0 if it is not known); and the outputs:
        marks (string [batch, max_characters], "" where no mark follows), and status (string [batch]: ok,
        empty, malformed if the text is not UTF-8, or too_long).
    """
    text = tf.compat.v1.placeholder(tf.string, [None], "characters")
    pauses = tf.compat.v1.placeholder(tf.float32, [None, None], "pauses")
    checked = item_checks.check_rows("pauses", pauses, {"characters": text})
    split, status = item_checks.split_texts(text, MAX_CHARACTERS)
    characters, counts = split.to_tensor(), tf.cast(split.row_lengths(), tf.int32)
    missing = [[0, 1], [0, tf.maximum(tf.shape(characters)[1] - tf.shape(checked)[1], 0)]]
    padded = tf.pad(checked, missing)[:, : tf.shape(characters)[1]]
    outputs = {"marks": find_marks(model, characters, counts, padded)}
    return {"characters": text, "pauses": pauses}, {**item_checks.clear(outputs, status), "status": status}


def punctuate(
    model: Optional[model_directory.ModelDirectory], outputs: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Adds marks to transcripts.

    Args:
        model: the punctuation model; if None, nothing is added.
        outputs: the outputs of cascade.transcribe.

    Returns:
        The outputs with punctuated (string [batch], the transcript with marks), and characters.mark (string
        [batch, max_characters], the mark after each character, or "").
    """
    if model is None:
        return dict(outputs)
    characters, starts, ends = (outputs[f"characters.{name}"] for name in ("character", "start", "end"))
    is_character = tf.not_equal(characters, "")
    counts = tf.reduce_sum(tf.cast(is_character, tf.int32), axis=1)
    # The pause after the last character is unknown here, and has no effect.
    pauses = tf.pad(starts[:, 1:], [[0, 0], [0, tf.minimum(1, tf.shape(starts)[1])]]) - ends
    following = find_marks(model, characters, counts, pauses)
    marked = sequences.Sequences(tf.strings.join([characters, following]), counts, ends[:, :1], ends)
    text = tf.strings.regex_replace(sequences.join(marked, "character"), _SPACES, r"\1")
    return {**outputs, "punctuated": text, "characters.mark": following}


def find_marks(
    model: model_directory.ModelDirectory, characters: tf.Tensor, num_characters: tf.Tensor, pauses: tf.Tensor
) -> tf.Tensor:
    """Returns the mark after each character, string [batch, max_characters], or "" where there is none.

    Args:
        characters: string [batch, max_characters], padded with "".
        num_characters: int32 [batch].
        pauses: float32 [batch, max_characters], silence after each character in seconds.
    """
    ids = sequences.find_ids(model, dataset_info.CHARACTERS_FILE, characters)
    features = {"character_ids": layers.at_least_one(ids), "num_characters": num_characters}
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE):
        logits = tasks.for_model(model).build(features)[:, : tf.shape(characters)[1]]
    is_last = tf.equal(tf.range(tf.shape(characters)[1]), num_characters[:, None] - 1)
    scores = punctuation.score(tf.cast(logits, tf.float32))
    best = tf.argmax(weigh_pauses(scores, pauses, tf.cast(is_last, tf.float32), model.decode), axis=2)
    # No mark follows a space.
    may_follow = tf.sequence_mask(num_characters, tf.shape(characters)[1])
    may_follow &= tf.not_equal(characters, vocabulary.SPACE)
    return tf.where(may_follow, tf.gather(tf.constant(marks.MARKS), best), "")


def weigh_pauses(scores: Array, pauses: Array, is_last: Array, config: config_lib.DecodeConfig) -> Array:
    """Adds the effect of pauses to the scores of the marks after each character; the highest score wins.

    A pause of p seconds adds pause_weight x (min(p, LONGEST_PAUSE) - pause_offset) to the log odds of a mark.
    The last character is always followed by a mark, because speech ends there.

    Args:
        scores: see punctuation.score; float32 [..., max_characters, len(marks.MARKS)], as is the result.
        pauses: silence after each character in seconds, float32 [..., max_characters].
        is_last: 1 for the last character, 0 for all others, float32 [..., max_characters].
        config: weight and offset of pauses.
    """
    clip = np.clip if isinstance(pauses, np.ndarray) else tf.clip_by_value
    bonus = config.pause_weight * (clip(pauses, 0.0, LONGEST_PAUSE) - config.pause_offset)
    return scores + bonus[..., None] * _IS_MARK + is_last[..., None] * _EXCLUDED * (1 - _IS_MARK)
