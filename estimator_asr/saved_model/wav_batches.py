"""A batch of WAV files of any kind as waveforms at the model's sample rate, in core TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.saved_model import resampling, statuses, wav
from tfrecord_builder.audio import audio_files


def decode(wavs: tf.Tensor, sample_rate: int, max_seconds: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Decodes WAV files, string [batch]; channels are averaged, other sample rates resampled.

    Returns:
        waveform float32 [batch, max_samples], zero at or beyond num_samples; num_samples int32 [batch]; and
        the status string [batch]: malformed and too_long have no samples, the others are ok.
    """
    header = wav.read_headers(wavs, audio_files.SAMPLE_RATES_HZ)
    is_too_long = header.num_frames > max_seconds * header.sample_rate
    status = tf.where(is_too_long, statuses.TOO_LONG, statuses.OK)
    status = tf.where(header.is_valid, status, statuses.MALFORMED)

    def decode_one(item: tuple[tf.Tensor, wav.Header, tf.Tensor]) -> tf.Tensor:
        contents, fields, is_ok = item

        def read():
            return resampling.resample(wav.decode(contents, fields), fields.sample_rate, sample_rate)

        return tf.cond(is_ok, read, lambda: tf.zeros([0]))

    ragged = tf.RaggedTensorSpec([None], tf.float32, ragged_rank=0)
    items = (wavs, header, tf.equal(status, statuses.OK))
    waveforms = tf.map_fn(decode_one, items, fn_output_signature=ragged)
    return waveforms.to_tensor(), tf.cast(waveforms.row_lengths(), tf.int32), status
