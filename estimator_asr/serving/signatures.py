"""The ways into an exported model: WAV files, waveforms or features, three doors to one chain of ops.

    serving_default   wav_bytes string [batch]
                          | decode                                    (wav_bytes is a placeholder)
    waveform          waveform float32 [batch, num_samples], num_samples int32 [batch]
                          | frontend                    (placeholders with what comes from above as default)
    features          fbank float32 [batch, num_frames, num_bins], num_frames int32 [batch]     (likewise)

Who enters further down leaves what is above unrun. Core TensorFlow ops only, so that a plain server can load
them.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfrecord_builder import audio, frontend

SIGNATURE_INPUTS = {
    "serving_default": ("wav_bytes",),
    "waveform": ("waveform", "num_samples"),
    "features": ("fbank", "num_frames"),
}


class Entrances(NamedTuple):
    """Tensors that can be fed; the field names are the input names of the signatures."""

    wav_bytes: tf.Tensor  # string [batch], each the bytes of a 16-bit PCM WAV file
    waveform: tf.Tensor  # float32 [batch, num_samples] in [-1, 1]
    num_samples: tf.Tensor  # int32 [batch]; samples at or beyond it are ignored
    fbank: tf.Tensor  # float32 [batch, num_frames, num_bins]
    num_frames: tf.Tensor  # int32 [batch]; frames at or beyond it are ignored


def build_entrances(config: frontend.FrontendConfig) -> Entrances:
    """Build the chain from WAV bytes to features."""
    wav_bytes = tf.compat.v1.placeholder(tf.string, [None], "wav_bytes")
    waveform, num_samples = decode_wavs(wav_bytes, config.sample_rate)
    waveform = tf.compat.v1.placeholder_with_default(waveform, [None, None], "waveform")
    num_samples = tf.compat.v1.placeholder_with_default(num_samples, [None], "num_samples")
    fbank, num_frames = extract_features(waveform, num_samples, config)
    fbank = tf.compat.v1.placeholder_with_default(fbank, [None, None, config.num_bins], "fbank")
    num_frames = tf.compat.v1.placeholder_with_default(num_frames, [None], "num_frames")
    return Entrances(wav_bytes, waveform, num_samples, fbank, num_frames)


def extract_features(
    waveform: tf.Tensor, num_samples: tf.Tensor, config: frontend.FrontendConfig
) -> tuple[tf.Tensor, tf.Tensor]:
    """Run the frontend on a padded batch.

    Args:
      waveform: float32 [batch, max_samples].
      num_samples: int32 [batch].

    Returns:
      fbank float32 [batch, max_frames, num_bins] and num_frames int32 [batch], 0 where no window fits and
      for silence, which the builder rejects: a model writes something for whatever it never heard.
    """
    num_frames = frontend.num_frames(num_samples, config)
    audible_frames = tf.where(_is_silent(waveform, num_samples), tf.zeros_like(num_frames), num_frames)
    return frontend.extract(waveform, config), audible_frames


def _is_silent(waveform: tf.Tensor, num_samples: tf.Tensor) -> tf.Tensor:
    """Returns bool [batch]: all samples before num_samples stay below the threshold of the builder."""
    is_loud = tf.abs(waveform) >= audio.SILENT_PEAK  # [batch, max_samples]
    is_sample = tf.sequence_mask(num_samples, tf.shape(waveform)[1])
    return tf.logical_not(tf.reduce_any(is_loud & is_sample, axis=1))


def decode_wavs(wav_bytes: tf.Tensor, sample_rate: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Decode 16-bit PCM WAV files; several channels are averaged.

    Args:
      wav_bytes: string [batch].
      sample_rate: the only one accepted; another fails the whole batch with a message that has both.

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
