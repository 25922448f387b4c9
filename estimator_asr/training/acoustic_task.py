"""The acoustic model as the model_fn sees it: its predictions, its losses, and the figures that are shown."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr import model_builder, model_directory
from estimator_asr.models import decoding, losses
from estimator_asr.training import objectives, ratios

ERROR_RATE = "token-error-rate"


def predict(model: model_directory.ModelDirectory, features: dict) -> dict[str, tf.Tensor]:
    """Returns token_ids int32 [batch, max_tokens] (-1 at padding), num_tokens and score (float32) [batch]."""
    outputs = model_builder.build_acoustic(model, features["fbank"], features["num_frames"])
    hypotheses = decoding.greedy_ctc(outputs.ctc_logits, outputs.num_frames)
    return {"token_ids": hypotheses.ids, "num_tokens": hypotheses.num_tokens, "score": hypotheses.scores}


def forward(
    model: model_directory.ModelDirectory, features: dict, labels: dict, training: bool
) -> objectives.Forward:
    """Builds the model with its losses (CTC and decoder, weighted) and its decoded error rate."""
    seed = features["seed"] if training else None
    outputs = model_builder.build_acoustic(model, features["fbank"], features["num_frames"], labels, seed)
    hypotheses = decoding.greedy_ctc(outputs.ctc_logits, outputs.num_frames)
    figures = {
        ERROR_RATE: ratios.edit_ratio(
            hypotheses.ids, hypotheses.num_tokens, labels["token_ids"], labels["num_tokens"]
        ),
        "blank-share": blank_share(outputs.ctc_logits, outputs.num_frames),
    }
    num_inputs = tf.reduce_sum(features["num_frames"])
    return objectives.Forward(_losses(model.config.acoustic, outputs, labels, training), figures, num_inputs)


def blank_share(logits: tf.Tensor, num_frames: tf.Tensor) -> ratios.Ratio:
    """Returns the share of frames whose best class is the blank; padding does not count."""
    is_blank = tf.equal(tf.argmax(logits, axis=-1), logits.shape[-1] - 1)
    is_frame = tf.sequence_mask(num_frames, tf.shape(logits)[1])
    blanks = tf.reduce_sum(tf.cast(is_blank & is_frame, tf.float32))
    return ratios.Ratio(blanks, tf.cast(tf.reduce_sum(num_frames), tf.float32))


def decoder_targets(token_ids: tf.Tensor, num_tokens: tf.Tensor, end_id: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the labels with the end symbol behind them, and weights 1 for both.

    Args:
        token_ids: int32 [batch, max_tokens].
        num_tokens: int32 [batch].
        end_id: class of the end symbol.

    Returns:
        int32 and float32 [batch, max_tokens + 1]; the end symbol also fills the padding, whose weight is 0.
    """
    length = tf.shape(token_ids)[1] + 1
    is_token = tf.sequence_mask(num_tokens, length)
    targets = tf.where(is_token, tf.pad(token_ids, [[0, 0], [0, 1]]), end_id)
    return targets, tf.sequence_mask(num_tokens + 1, length, tf.float32)


def _losses(config, outputs, labels, training):
    token_ids, num_tokens = labels["token_ids"], labels["num_tokens"]
    num_labels = tf.cast(tf.reduce_sum(num_tokens), tf.float32)
    ctc = tf.reduce_sum(losses.ctc_loss(outputs.ctc_logits, outputs.num_frames, token_ids, num_tokens))
    if outputs.decoder_logits is None:
        return objectives.Losses(ctc, {"ctc-loss": ctc}, num_labels)
    end_id = outputs.ctc_logits.shape[-1] - 1
    targets, weights = decoder_targets(token_ids, num_tokens, end_id)
    # A row without frames fills up the part of a replica that has none: its end symbol does not count.
    weights *= tf.cast(outputs.num_frames > 0, tf.float32)[:, None]
    smoothing = config.label_smoothing if training else 0.0
    decoder = tf.reduce_sum(losses.cross_entropy(outputs.decoder_logits, targets, weights, smoothing))
    total = config.ctc_weight * ctc + (1.0 - config.ctc_weight) * decoder
    return objectives.Losses(total, {"ctc-loss": ctc, "decoder-loss": decoder}, num_labels)
