"""Acoustic model: an encoder with a CTC head and, if labels are passed, an attention decoder.

All variables are in the scope "acoustic". The classes are the token ids and one last class, which is both
CTC's blank and the decoder's start and end symbol.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import attention, encoders, feature_norm, layers, losses, streaming
from tfrecord_builder.audio import pretrained_encoder


def _pretrained(*arguments):
    from estimator_asr.models import frozen_encoder  # only pretrained encoders need this module

    return frozen_encoder.conformer_on_top(*arguments)


ENCODERS = {
    "conformer": encoders.Encoder(encoders.conformer, subsampling=4, can_stream=True),
    "transformer": encoders.Encoder(encoders.transformer, subsampling=4, can_stream=True),
    "cnn": encoders.Encoder(encoders.cnn, subsampling=4),
    **dict.fromkeys(pretrained_encoder.FAMILIES, encoders.Encoder(_pretrained, 2, is_pretrained=True)),
}


class AcousticOutputs(NamedTuple):
    """Outputs of the acoustic model; logits are not normalised."""

    ctc_logits: tf.Tensor  # float32 [batch, num_subsampled, num_classes]
    num_frames: tf.Tensor  # int32 [batch], number of subsampled frames
    # float32 [batch, max_tokens + 1, num_classes]; None if there are no labels or no decoder blocks.
    decoder_logits: Optional[tf.Tensor]
    encoding: Optional[encoders.Encoding] = None
    scorer: Optional[losses.LogitFactors] = None  # factors from which decoder_logits are computed
    # Cross-attention weights of the last decoder block, [batch, heads, max_tokens + 1, num_subsampled].
    attention: Optional[tf.Tensor] = None
    local_logits: Optional[tf.Tensor] = None  # like ctc_logits, but computed from encoding.below


def build(
    config: config_lib.AcousticConfig,
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    *,
    num_classes: int,
    token_parts: Optional[np.ndarray] = None,
    token_ids: Optional[tf.Tensor] = None,
    num_tokens: Optional[tf.Tensor] = None,
    seed: Optional[tf.Tensor] = None,
    stream: Optional[streaming.Stream] = None,
) -> AcousticOutputs:
    """Builds the acoustic model.

    Args:
        fbank: float32 [batch, num_frames, num_bins].
        num_frames: int32 [batch], number of real frames; later frames are ignored, even if they are NaN.
        num_classes: number of tokens, plus one for the blank.
        token_parts: float32 [num_classes - 1, num_parts] from syllables.part_matrix; None if the tokens
            have no parts.
        token_ids: int32 [batch, max_tokens], the labels; if None, no decoder is built.
        num_tokens: int32 [batch], number of labels; ids after the last label are ignored.
        seed: int64 [2], random seed for the batch in training. If None, dropout is off, and batch norm uses
            its moving averages.
        stream: settings for cutting recordings into chunks if config.chunk_frames is set; if None,
            recordings are processed whole. Training ignores this argument and samples the chunk size.
    """
    entry = ENCODERS[config.encoder]
    with tf.compat.v1.variable_scope("acoustic"):
        if config.chunk_frames:
            stream = stream if seed is None else streaming.sample(seed, entry.subsampling)
            arguments = num_frames, seed is not None, entry.subsampling, stream
            fbank = feature_norm.normalise_causally(fbank, *arguments)
        elif not entry.is_pretrained:
            fbank = feature_norm.normalise(fbank, num_frames, config.fill_bands)
        with tf.compat.v1.variable_scope("encoder"):
            streams = (stream,) if entry.can_stream else ()
            encoding = entry.build(config, fbank, num_frames, seed, *streams)
        with tf.compat.v1.variable_scope("ctc"):
            hidden = layers.dropout(encoding.outputs, config.acoustic_dropout, seed)
            vectors = class_vectors(num_classes, hidden.shape[-1], token_parts)
            ctc_logits = classify(get_scorer(hidden, vectors))
        local_logits = None
        if token_ids is not None and config.local_ctc_weight:
            with tf.compat.v1.variable_scope("local_ctc"):
                local_logits = layers.dense(layers.layer_norm(encoding.below), num_classes, "classes")
        decoder_logits = scorer = weights = None
        if token_ids is not None and config.decoder_layers:
            with tf.compat.v1.variable_scope("decoder"):
                previous = shift_right(token_ids, num_tokens, num_classes - 1)
                scorer, weights = decode(config, previous, encoding, num_classes, token_parts, seed)
                decoder_logits = classify(scorer)
    return AcousticOutputs(
        ctc_logits, encoding.num_frames, decoder_logits, encoding, scorer, weights, local_logits
    )


def class_vectors(num_classes: int, units: int, token_parts: Optional[np.ndarray]) -> tf.Tensor:
    """Returns the sum of each class's own vector and its parts' vectors, float32 [num_classes, units]."""
    scale = tf.compat.v1.random_normal_initializer(stddev=0.02)  # BERT's stddev, keeps initial logits near 0
    own = tf.compat.v1.get_variable("class_vectors", [num_classes, units], initializer=scale)
    if token_parts is None:
        return own
    # The blank has no syllable parts, so its row is zero.
    parts = np.pad(np.float32(token_parts), [[0, num_classes - len(token_parts)], [0, 0]])
    shape = [parts.shape[1], units]
    return own + tf.matmul(parts, tf.compat.v1.get_variable("part_vectors", shape, initializer=scale))


def get_scorer(hidden: tf.Tensor, vectors: tf.Tensor) -> losses.LogitFactors:
    """Returns a scorer: hidden, [batch, length, units], times one vector per class, plus a bias per class."""
    # The bias has two axes; a warm start copies its columns, one per class (transfer.class_names).
    bias = layers.get_bias("bias", [1, vectors.shape[0]])
    return losses.LogitFactors(hidden, vectors, tf.squeeze(bias, 0))


def classify(scorer: losses.LogitFactors) -> tf.Tensor:
    """Returns the logits of all classes, float32 [batch, length, num_classes]."""
    return layers.linear(scorer.hidden, tf.transpose(scorer.vectors), scorer.biases)


def shift_right(token_ids: tf.Tensor, num_tokens: tf.Tensor, boundary_id: int) -> tf.Tensor:
    """Returns boundary_id followed by the labels, padded with boundary_id, int32 [batch, max_tokens + 1]."""
    is_token = tf.sequence_mask(num_tokens, tf.shape(token_ids)[1])
    token_ids = tf.where(is_token, token_ids, tf.fill(tf.shape(token_ids), boundary_id))
    return tf.pad(token_ids, [[0, 0], [1, 0]], constant_values=boundary_id)


def decode(
    config: config_lib.AcousticConfig,
    previous_ids: tf.Tensor,
    encoding: encoders.Encoding,
    num_classes: int,
    token_parts: Optional[np.ndarray],
    seed: Optional[tf.Tensor],
) -> tuple[losses.LogitFactors, tf.Tensor]:
    """Pre-norm Transformer decoder; its output layer and embeddings share weights (Press and Wolf, 2017).

    previous_ids, int32 [batch, length], holds the token before each position. See build for the other
    arguments.

    Returns:
        A scorer, whose logits at each position depend on previous_ids only up to and including that position;
        and the last block's cross-attention weights, [batch, heads, length, num_subsampled].
    """
    vectors = class_vectors(num_classes, encoding.outputs.shape[-1], token_parts)
    hidden = attention.add_positions(tf.gather(vectors, previous_ids) * config.encoder_units**0.5)
    hidden = layers.dropout(hidden, config.acoustic_dropout, seed)
    causal = attention.causal_mask(tf.shape(previous_ids)[1])
    for i in range(config.decoder_layers):
        with tf.compat.v1.variable_scope(f"block_{i}"):
            hidden, weights = _decoder_block(config, hidden, causal, encoding, seed)
    return get_scorer(layers.layer_norm(hidden, "output_norm"), vectors), weights


def _decoder_block(config, hidden, causal, encoding, seed):
    """Runs causal self-attention, cross-attention and feed-forward layers, all with residual connections."""
    heads, rate = config.attention_heads, config.acoustic_dropout
    attended = attention.self_attention(layers.layer_norm(hidden, "layer_norm_0"), causal, heads)
    hidden += layers.dropout(attended, rate, seed)
    normed = layers.layer_norm(hidden, "layer_norm_1")
    attended, weights = attention.cross_attention(normed, encoding.outputs, encoding.mask, heads)
    hidden += layers.dropout(attended, rate, seed)
    normed = layers.layer_norm(hidden, "layer_norm_2")
    module = layers.feed_forward(normed, config.encoder_inner_units, rate, seed)
    return hidden + layers.dropout(module, rate, seed), weights


def decoder_targets(token_ids: tf.Tensor, num_tokens: tf.Tensor, end_id: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Converts labels, int32 [batch, max_tokens], to the decoder's targets and their weights.

    Returns:
        Labels followed by end symbols, int32 [batch, max_tokens + 1]; and float32 weights of the same shape,
        which are 1 for the labels and the first end symbol, and 0 for the end symbols used as padding.
    """
    length = tf.shape(token_ids)[1] + 1
    is_token = tf.sequence_mask(num_tokens, length)
    targets = tf.where(is_token, tf.pad(token_ids, [[0, 0], [0, 1]]), end_id)
    return targets, tf.sequence_mask(num_tokens + 1, length, tf.float32)


def score(
    config: config_lib.AcousticConfig,
    encoding: encoders.Encoding,
    token_ids: tf.Tensor,
    num_tokens: tf.Tensor,
    num_classes: int,
    token_parts: Optional[np.ndarray],
) -> tf.Tensor:
    """Returns the decoder's log probabilities of whole sequences, including their end symbols.

    token_ids is int32 [batch, num_sequences, max_tokens]; num_tokens and the result are [batch,
    num_sequences]. `encoding` comes from build, which describes the other arguments.
    """
    shape = tf.shape(token_ids)
    rows = [shape[0] * shape[1], shape[2]]
    ids, counts = tf.reshape(token_ids, rows), tf.reshape(num_tokens, [-1])
    encoding = encoders.Encoding(*(tf.repeat(tensor, shape[1], axis=0) for tensor in encoding[:3]))
    with tf.compat.v1.variable_scope("acoustic/decoder", reuse=tf.compat.v1.AUTO_REUSE):
        previous = shift_right(ids, counts, num_classes - 1)
        logits = classify(decode(config, previous, encoding, num_classes, token_parts, None)[0])
    targets, weights = decoder_targets(ids, counts, num_classes - 1)
    log_probs = tf.gather(tf.nn.log_softmax(logits), targets, axis=2, batch_dims=2)
    return tf.reshape(tf.reduce_sum(log_probs * weights, axis=1), shape[:2])
