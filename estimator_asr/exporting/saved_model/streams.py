"""Builds a streaming model's signatures, which read recordings piece by piece while clients keep the state.

    stream_start       num_streams int32 []          state_* of num_streams new streams
    stream             waveform float32 [batch, num_samples], num_samples int32 [batch], is_last bool [batch]
                       and state_*                   outputs of the recording so far, and state_*
    stream_features    the same, but fbank float32 [batch, num_frames, num_bins] and num_frames int32 [batch]

A piece may have any length, including 0. Each row is an independent stream. Because states have fixed shapes,
a client may hold the rows of thousands of streams and batch any of them. Audio waits in the state until a
chunk is complete or the stream ends. A piece whose status is not ok is treated as empty.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import cascade, item_checks, statuses
from estimator_asr.models import layers, streaming
from estimator_asr.models.tasks import tasks
from tfrecord_builder.audio import frontend

START, STREAM, FEATURES = "stream_start", "stream", "stream_features"


def can_stream(acoustic: model_directory.ModelDirectory) -> bool:
    """Returns True if a model was trained with chunks and uses beam search, as these signatures require."""
    return bool(acoustic.config.acoustic.chunk_frames) and acoustic.decode.decoding == "beam"


def build(
    acoustic: model_directory.ModelDirectory, language: Optional[model_directory.ModelDirectory]
) -> dict[str, tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]]:
    """Builds the signatures, which share the models' variables with the rest of the graph.

    Returns:
        The inputs and outputs of each signature, by name. The outputs are those of cascade.transcribe, except
        greedy_pinyin, plus status: ok, not_finite, or too_long if the stream exceeds STREAM_SECONDS. A
        token's time is the time of the frame in which it was most probable. N-gram models score the end of a
        sentence only where is_last is true; the attention decoder does not rescore streams.
    """
    audio, state, config = streaming.State(), streaming.State(), acoustic.config.frontend
    default, placeholder = tf.compat.v1.placeholder_with_default, tf.compat.v1.placeholder
    is_last = placeholder(tf.bool, [None], "is_last")
    samples = {
        "waveform": placeholder(tf.float32, [None, None], "piece"),
        "num_samples": placeholder(tf.int32, [None], "num_piece_samples"),
    }
    pieces = item_checks.check_pieces(samples, statuses.LOUDEST_PEAK, tf.zeros_like(is_last))
    fbank, num_frames = _extract(pieces, config, audio)
    features = {
        "fbank": default(fbank, [None, None, config.num_bins], "piece_fbank"),
        "num_frames": default(num_frames, [None], "num_piece_frames"),
    }
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE):
        outputs, status = _transcribe(acoustic, language, features, is_last, state)
    outputs |= state.outputs
    for name, before in audio.inputs.items():  # a rejected piece leaves the audio state unchanged
        audio.outputs[name] = item_checks.choose(status, audio.outputs[name], before)
    whole = {**outputs, **audio.outputs, "status": item_checks.first_problem(pieces.status, status)}
    count = placeholder(tf.int32, [], "num_streams")
    new_states = {**audio.starts, **state.starts}
    starts = {name: tf.repeat(value[None], count, axis=0) for name, value in new_states.items()}
    return {
        START: ({"num_streams": count}, starts),
        STREAM: ({**samples, "is_last": is_last, **audio.inputs, **state.inputs}, whole),
        FEATURES: ({**features, "is_last": is_last, **state.inputs}, {**outputs, "status": status}),
    }


def _extract(
    pieces: item_checks.Items, config: frontend.FrontendConfig, state: streaming.State
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the features of all complete frames, and num_frames; remaining samples wait in the state."""
    waiting = state.take("samples", tf.zeros([config.window_samples - 1]))
    num_waiting = state.take("num_samples", 0)
    num_waiting = item_checks.check_rows("state_num_samples", num_waiting, {"num_samples": pieces.lengths})
    joined, total = streaming.append(waiting, num_waiting, pieces.values, pieces.lengths)
    num_frames = frontend.num_frames(total, config)
    num_read = num_frames * config.hop_samples
    state.put("samples", streaming.take_rows(joined, num_read, config.window_samples - 1))
    state.put("num_samples", total - num_read)
    return frontend.extract(joined, config), num_frames


def _transcribe(acoustic, language, features, is_last, state):
    """Returns the outputs for the complete chunks, and the status of each piece."""
    config, chunk = acoustic.config, acoustic.config.acoustic.chunk_frames
    waiting = state.take("frames", tf.zeros([chunk - 1, config.frontend.num_bins]))
    num_waiting, num_outputs = state.take("num_frames", 0), state.take("num_outputs", 0)
    per_stream = {"num_frames": features["num_frames"], "is_last": is_last}
    num_outputs = item_checks.check_rows("state_num_outputs", num_outputs, per_stream)
    max_frames = frontend.num_frames(statuses.STREAM_SECONDS * config.frontend.sample_rate, config.frontend)
    is_too_long = num_outputs * config.subsampling + num_waiting + features["num_frames"] > max_frames
    pieces = item_checks.check_pieces(features, statuses.LARGEST_FEATURE, is_too_long)
    joined, total = streaming.append(waiting, num_waiting, pieces.values, pieces.lengths)
    num_frames = tf.where(is_last, total, total // chunk * chunk)
    state.put("frames", streaming.take_rows(joined, num_frames, chunk - 1))
    state.put("num_frames", total - num_frames)
    state.put("num_outputs", num_outputs + frontend.num_subsampled_frames(num_frames, config.subsampling))
    fbank = layers.at_least_one(joined[:, : tf.reduce_max(num_frames)])
    model = tasks.for_model(acoustic)
    stream = streaming.Stream(chunk // config.subsampling, num_outputs, state)
    features = {"fbank": fbank, "num_frames": num_frames}
    outputs = model.build(features, stream=stream)
    max_tokens = frontend.num_subsampled_frames(max_frames, config.subsampling)
    hypotheses = model.decode_stream(outputs, features, is_last, stream, max_tokens)
    return cascade.write_stream(acoustic, language, *hypotheses), pieces.status
