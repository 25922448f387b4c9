"""Builds the signatures that align audio with tokens, from the acoustic model alone.

align       waveform, num_samples, and tokens (string [batch], separated by spaces)
                -> when each token is spoken, and how well it explains the audio
log_probs   waveform, num_samples -> log probabilities of the tokens in each frame
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.search import token_times
from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import item_checks, statuses
from estimator_asr.models import losses
from estimator_asr.models.tasks import task
from tfrecord_builder.data import dataset_info

ALIGN, LOG_PROBS = "align", "log_probs"  # names of the signatures


def build(
    acoustic: model_directory.ModelDirectory,
    recognition: task.Recognition,
    inputs: Mapping[str, tf.Tensor],
    status: tf.Tensor,
) -> dict[str, tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]]:
    """Builds the signatures for an acoustic model.

    Args:
        acoustic: the model.
        recognition: its outputs, with at least one row.
        inputs: waveform, float32 [batch, num_samples], and num_samples, int32 [batch].
        status: status of each item, string [batch].

    Returns:
        Inputs and outputs of each signature by name. Rejected items have neither tokens nor frames.

        align: tokens.token (string), tokens.start and tokens.end (float32, seconds), tokens.score (float32;
        see token_times.Alignment), all [batch, num_tokens] and padded with "" and 0; and status. The status
        is too_many_tokens if CTC needs more frames than the audio has.

        log_probs: log_probs (float32 [batch, num_frames, num_classes], the blank is the last class),
        num_frames (int32 [batch]), frame_seconds (float32 [batch], seconds per frame) and status.
    """
    frames = {
        "log_probs": recognition.log_probs,
        "num_frames": recognition.num_frames,
        "frame_seconds": tf.fill(tf.shape(recognition.num_frames), acoustic.config.output_seconds),
    }
    frames = {**item_checks.clear(frames, status), "status": status}
    tokens = tf.compat.v1.placeholder(tf.string, [None], "tokens")
    aligned = _align(acoustic, recognition, item_checks.check_rows("tokens", tokens, inputs), status)
    return {LOG_PROBS: (dict(inputs), frames), ALIGN: ({**inputs, "tokens": tokens}, aligned)}


def _align(acoustic, recognition, tokens, status):
    missing = tf.shape(recognition.num_frames) - tf.shape(tokens)  # an empty batch has an extra row
    tokens = tf.concat([tokens, tf.fill(missing, "")], axis=0)
    counts = tf.cast(tf.strings.split(tokens).row_lengths(), tf.int32)
    is_short = counts <= recognition.num_frames  # longer texts are dropped to limit the padding of the batch
    split = tf.strings.split(tf.where(is_short, tokens, ""))
    strings, counts = split.to_tensor(), tf.cast(split.row_lengths(), tf.int32)
    ids = sequences.find_ids(acoustic, dataset_info.TOKENS_FILE, strings)
    possible = is_short & losses.has_alignment(recognition.num_frames, ids, counts)
    possible = possible[: tf.size(status)]
    fits = tf.where(possible, statuses.OK, statuses.TOO_MANY_TOKENS)
    status = item_checks.first_problem(status, fits)
    is_aligned = tf.pad(tf.equal(status, statuses.OK), [[0, tf.shape(strings)[0] - tf.size(status)]])
    counts = tf.where(is_aligned, counts, 0)
    alignment = token_times.align_and_score(recognition.log_probs, recognition.num_frames, ids, counts)
    seconds = acoustic.config.output_seconds
    outputs = {
        "tokens.token": strings,
        "tokens.start": seconds * tf.cast(alignment.times.starts, tf.float32),
        "tokens.end": seconds * tf.cast(alignment.times.ends, tf.float32),
        "tokens.score": alignment.scores,
    }
    return {**item_checks.clear(outputs, status), "status": status}
