"""The language model as the model_fn sees it: its predictions, its loss, and the figures that are shown."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.models import candidates, losses
from estimator_asr.tasks import metrics, model_builder, task

ERROR_RATE = "character-error-rate"
LABELS = ("character_ids", "num_characters")  # the ids to learn, and how many they are


def predict(model: model_directory.ModelDirectory, features: dict) -> dict[str, tf.Tensor]:
    """Returns character_ids int32 [batch, max_tokens] (-1 at padding), num_characters and score [batch]."""
    scored = model_builder.build_language(model, features["token_ids"], features["num_tokens"])
    best = candidates.best(scored)
    score = tf.reduce_sum(best.log_probs, axis=1)
    return {"character_ids": best.characters, "num_characters": features["num_tokens"], "score": score}


def forward(
    model: model_directory.ModelDirectory, features: dict, labels: dict, training: bool
) -> task.Forward:
    """Builds the model with its cross-entropy and its character error rate."""
    num_tokens = features["num_tokens"]
    token_ids = losses.check_labels(features["token_ids"], num_tokens, model.tokens.size)
    characters = losses.check_labels(labels["character_ids"], labels["num_characters"], model.characters.size)
    labels = {**labels, "character_ids": characters}
    seed = features["seed"] if training else None
    scored = model_builder.build_language(model, token_ids, num_tokens, seed)
    targets, is_paired = pair_characters(num_tokens, tf.shape(token_ids)[1], labels)
    loss, weights = candidates.cross_entropy(scored, targets)
    weights *= is_paired  # a character that the model cannot choose has weight 0 already
    result = task.Losses(tf.reduce_sum(loss * weights), {}, tf.reduce_sum(weights))
    num_written = tf.where(is_paired[:, 0] > 0, num_tokens, 0)
    written, said = candidates.best(scored).characters, (characters, labels["num_characters"])
    num_said = tf.cast(tf.reduce_sum(labels["num_characters"]), tf.float32)
    figures = {
        ERROR_RATE: metrics.edit_ratio(written, num_tokens, *said),
        "unknown-fraction": metrics.unknown_fraction(*said),
        "repeated-share": metrics.repeated_share(written, num_written, characters, num_written),
        # The others have no token of their own, or are none that may be written for it.
        "used-label-share": metrics.Ratio(result.num_labels, num_said),
    }
    return task.Forward(result, figures, tf.reduce_sum(num_tokens))


def pair_characters(num_tokens: tf.Tensor, length: tf.Tensor, labels: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the character of each token.

    Args:
        num_tokens: int32 [batch].
        length: int32 [], of the token axis.
        labels: character_ids int32 [batch, max_characters], num_characters int32 [batch].

    Returns:
        int32 [batch, length] characters, and float32 [batch, 1], 0 for an utterance that has not one
        character a token.
    """
    characters = labels["character_ids"]
    missing = tf.maximum(length - tf.shape(characters)[1], 0)
    is_paired = tf.equal(num_tokens, labels["num_characters"])
    return tf.pad(characters, [[0, 0], [0, missing]])[:, :length], tf.cast(is_paired, tf.float32)[:, None]
