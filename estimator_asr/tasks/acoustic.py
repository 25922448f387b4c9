"""The acoustic model as the model_fn sees it: its predictions, its losses, and the metrics that are shown.

With the weight w of CTC, the loss is w x CTC + (1 - w) x decoder, both summed over a batch. It is divided by
w x the labels that CTC can align + (1 - w) x the positions of the decoder, which has one more per utterance:
so each of the two counts as often as it is a term of the sum. A divisor of its own for each would need two
gradients of every batch where several make an update, for the numbers are known only at its end.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.models import acoustic, decoding, losses
from estimator_asr.tasks import metrics, model_builder, task

ERROR_RATE = "token-error-rate"
LABELS = ("token_ids", "num_tokens")  # the ids to learn, and how many they are


def predict(model: model_directory.ModelDirectory, features: dict) -> dict[str, tf.Tensor]:
    """Returns token_ids int32 [batch, max_tokens] (-1 at padding), num_tokens and score (float32) [batch]."""
    outputs = model_builder.build_acoustic(model, features["fbank"], features["num_frames"])
    hypotheses = decoding.greedy_ctc(outputs.ctc_logits, outputs.num_frames)
    return {"token_ids": hypotheses.ids, "num_tokens": hypotheses.num_tokens, "score": hypotheses.scores}


def forward(
    model: model_directory.ModelDirectory,
    features: dict,
    labels: dict,
    training: bool,
    ctc_kernel: str = losses.CLASSIC,
) -> task.Forward:
    """Builds the model with its losses (CTC and decoder, weighted) and its decoded error rate."""
    seed = features["seed"] if training else None
    outputs = model_builder.build_acoustic(model, features["fbank"], features["num_frames"], labels, seed)
    num_inputs = tf.reduce_sum(features["num_frames"])
    result = _losses(model.config.acoustic, outputs, labels, training, ctc_kernel)
    return task.Forward(result, _figures(outputs, labels), num_inputs)


def _figures(outputs, labels):
    """Ratios by tag; what needs decoding is computed only where it is fetched."""
    hypotheses = decoding.greedy_ctc(outputs.ctc_logits, outputs.num_frames)
    written, said = hypotheses[:2], (labels["token_ids"], labels["num_tokens"])
    is_too_long = tf.logical_not(losses.has_alignment(outputs.num_frames, *said))
    figures = {
        ERROR_RATE: metrics.edit_ratio(*written, *said),
        "unknown-fraction": metrics.unknown_fraction(*said),
        "blank-share": blank_share(outputs.ctc_logits, outputs.num_frames),
        "length-ratio": metrics.length_ratio(hypotheses.num_tokens, labels["num_tokens"]),
        "repeated-share": metrics.repeated_share(*written, *said),
        "too-long-share": metrics.share_of(is_too_long, labels["num_tokens"] > 0),
    }
    if outputs.decoder_logits is not None:
        figures["teacher-forced-error-rate"] = teacher_forced_errors(outputs.decoder_logits, labels)
    return figures


def blank_share(logits: tf.Tensor, num_frames: tf.Tensor) -> metrics.Ratio:
    """Returns the share of frames whose best class is the blank; padding does not count."""
    is_blank = tf.equal(tf.argmax(logits, axis=-1), logits.shape[-1] - 1)
    is_frame = tf.sequence_mask(num_frames, tf.shape(logits)[1])
    blanks = tf.reduce_sum(tf.cast(is_blank & is_frame, tf.float32))
    return metrics.Ratio(blanks, tf.cast(tf.reduce_sum(num_frames), tf.float32))


def teacher_forced_errors(logits: tf.Tensor, labels: dict) -> metrics.Ratio:
    """Returns the share of wrong choices of the decoder where it is told all labels before; the end counts.

    Args:
        logits: float32 [batch, max_tokens + 1, num_classes].
        labels: token_ids int32 [batch, max_tokens], num_tokens int32 [batch]; utterances without labels
            do not count.
    """
    num_tokens = labels["num_tokens"]
    targets, weights = decoder_targets(labels["token_ids"], num_tokens, logits.shape[-1] - 1)
    is_counted = (weights > 0) & (num_tokens > 0)[:, None]
    is_wrong = tf.not_equal(tf.argmax(logits, -1, tf.int32), metrics.mark_unknown(targets))
    return metrics.share_of(is_wrong, is_counted)


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


def _losses(config, outputs, labels, training, ctc_kernel):
    ctc = ctc_part(outputs, labels, ctc_kernel)
    if outputs.decoder_logits is None:
        return task.Losses(ctc.numerator, {"ctc-loss": ctc}, ctc.denominator)
    decoder = decoder_part(outputs, labels, config.label_smoothing if training else 0.0)
    weight = config.ctc_weight
    total, num_labels = (weight * one + (1.0 - weight) * other for one, other in zip(ctc, decoder))
    return task.Losses(total, {"ctc-loss": ctc, "decoder-loss": decoder}, num_labels)


def ctc_part(outputs: acoustic.AcousticOutputs, labels: dict, ctc_kernel: str) -> metrics.Ratio:
    """Returns the CTC loss over the labels; an utterance that cannot be aligned adds to neither."""
    token_ids, num_tokens = labels["token_ids"], labels["num_tokens"]
    loss = losses.ctc_loss(outputs.ctc_logits, outputs.num_frames, token_ids, num_tokens, ctc_kernel)
    is_possible = losses.has_alignment(outputs.num_frames, token_ids, num_tokens)
    num_labels = tf.reduce_sum(tf.where(is_possible, num_tokens, 0))
    return metrics.Ratio(tf.reduce_sum(loss), tf.cast(num_labels, tf.float32))


def decoder_part(outputs: acoustic.AcousticOutputs, labels: dict, label_smoothing: float) -> metrics.Ratio:
    """Returns the decoder's cross-entropy over its positions: one for each label, and one for the end."""
    end_id = outputs.decoder_logits.shape[-1] - 1
    targets, weights = decoder_targets(labels["token_ids"], labels["num_tokens"], end_id)
    # A row without frames fills up the part of a replica that has none: its end symbol does not count.
    weights *= tf.cast(outputs.num_frames > 0, tf.float32)[:, None]
    loss = losses.cross_entropy(outputs.decoder_logits, targets, weights, label_smoothing)
    return metrics.Ratio(tf.reduce_sum(loss), tf.reduce_sum(weights))
