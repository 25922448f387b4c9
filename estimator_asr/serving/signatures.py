"""The serving inputs of an export: WAV files, waveforms or features, signatures of one graph.

    serving_default   wav_bytes string [batch]
                          | decode                                    (wav_bytes is a placeholder)
    waveform          waveform float32 [batch, num_samples], num_samples int32 [batch]
                          | frontend, frozen encoder    (placeholders whose default is the op above)
    features          fbank float32 [batch, num_frames, num_bins], num_frames int32 [batch]     (likewise)

A signature does not run what is above its inputs. Each has a twin (waveform_hotwords) with one more,
hotwords string [num_hotwords], which are for all utterances of a batch. Core TensorFlow ops only, so that a
plain server can load them.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from estimator_asr.models import frozen_encoder
from tfrecord_builder import audio, frontend

SIGNATURE_INPUTS = {
    "serving_default": ("wav_bytes",),
    "waveform": ("waveform", "num_samples"),
    "features": ("fbank", "num_frames"),
}
HOTWORDS = "hotwords"


def list_signatures(has_hotwords: bool) -> dict[str, tuple[str, ...]]:
    """Returns the names of the inputs of each signature."""
    inputs = SIGNATURE_INPUTS.items()
    twins = {f"{name}_{HOTWORDS}": (*names, HOTWORDS) for name, names in inputs if has_hotwords}
    return {**SIGNATURE_INPUTS, **twins}


def build_inputs(config: frontend.FrontendConfig) -> dict[str, tf.Tensor]:
    """Builds the graph from WAV bytes to features; returns the tensors that can be fed, by input name.

    WAV files are 16-bit PCM, waveforms in [-1, 1]; values at or beyond a length are ignored.
    """
    default = tf.compat.v1.placeholder_with_default
    wav_bytes = tf.compat.v1.placeholder(tf.string, [None], "wav_bytes")
    waveform, num_samples = decode_wavs(wav_bytes, config.sample_rate)
    waveform = default(waveform, [None, None], "waveform")
    num_samples = default(num_samples, [None], "num_samples")
    fbank, num_frames = _extract_features(waveform, num_samples, config)
    return {
        "wav_bytes": wav_bytes,
        "waveform": waveform,
        "num_samples": num_samples,
        "fbank": default(fbank, [None, None, config.num_bins], "fbank"),
        "num_frames": default(num_frames, [None], "num_frames"),
        HOTWORDS: default(tf.constant([], tf.string), [None], HOTWORDS),
    }


def _extract_features(waveform, num_samples, config):
    """num_frames is 0 for silence, as the builder rejects it: a model has never seen it in training."""
    base = dataclasses.replace(config, encoder=None)
    num_frames = frontend.num_frames(num_samples, base)
    audible_frames = tf.where(_is_silent(waveform, num_samples), tf.zeros_like(num_frames), num_frames)
    fbank = frontend.extract(waveform, config, num_samples)
    if config.encoder is None:
        return fbank, audible_frames
    vectors, num_vectors = frozen_encoder.build(config.encoder, fbank, audible_frames)
    return tf.cast(vectors, tf.float32), num_vectors


def _is_silent(waveform, num_samples):
    is_loud = tf.abs(waveform) >= audio.SILENT_PEAK  # [batch, max_samples]
    is_sample = tf.sequence_mask(num_samples, tf.shape(waveform)[1])
    return tf.logical_not(tf.reduce_any(is_loud & is_sample, axis=1))  # [batch]


def decode_wavs(wav_bytes: tf.Tensor, sample_rate: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes 16-bit PCM WAV files, string [batch]; several channels are averaged.

    A file of another sample rate fails the batch and names both rates.

    Returns:
        waveform float32 [batch, max_samples], zero at or beyond num_samples, and num_samples int32 [batch].
    """

    def decode(contents: tf.Tensor) -> tf.Tensor:
        audio, rate = tf.audio.decode_wav(contents)  # [num_samples, channels]
        message = ["wav_bytes: sample rate is", rate, f"Hz, expected {sample_rate} Hz; resample the audio"]
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(rate, sample_rate), message)]):
            return tf.reduce_mean(audio, axis=1)

    ragged = tf.RaggedTensorSpec([None], tf.float32, ragged_rank=0)
    waveforms = tf.map_fn(decode, wav_bytes, fn_output_signature=ragged)
    return waveforms.to_tensor(), tf.cast(waveforms.row_lengths(), tf.int32)
