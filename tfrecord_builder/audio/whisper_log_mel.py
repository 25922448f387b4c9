"""Whisper's log-mel features (Radford et al. 2022; audio.py in the reference code) in core TensorFlow ops.

The waveform is reflected at both ends, and there is one frame per complete hop. Values far below the loudest
value in the utterance are raised to a floor, so each value depends on the whole utterance. Therefore, unlike
Kaldi's features, Whisper's cannot be computed from a padded waveform unless its length without padding is
known.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from tfrecord_builder.program import lazy_tensorflow as tf

SAMPLE_RATE, WINDOW, HOP = 16000, 400, 160  # Hz, samples, samples
_FLOOR = 1e-10  # lower limit of the power, to avoid log(0)
_RANGE = 8.0  # decades; values further below the utterance's loudest value are raised
# Mel scale of Slaney's Auditory Toolbox: linear below 1 kHz (200 / 3 Hz per mel), logarithmic above.
_LINEAR_HZ, _LINEAR_MELS = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27.0


def extract(waveform: tf.Tensor, num_samples: Optional[tf.Tensor], num_mel_bins: int) -> tf.Tensor:
    """Computes the features of a batch of waveforms or of a single waveform.

    Args:
        waveform: float32 [batch, max_samples] or [num_samples] at 16 kHz.
        num_samples: int32 [batch], lengths without padding; None if there is no padding.
        num_mel_bins: 80 or 128.

    Returns:
        float32 [batch, max_samples // 160, num_mel_bins], without the batch axis if `waveform` has none;
        values range from about -1 to 1.5 and are 0 in the padding.
    """
    waveform = tf.convert_to_tensor(waveform)
    if waveform.shape.rank == 1:
        lengths = None if num_samples is None else num_samples[None]
        return extract(waveform[None], lengths, num_mel_bins)[0]
    if num_samples is None:
        num_samples = tf.fill(tf.shape(waveform)[:1], tf.shape(waveform)[1])
    hann = np.float32(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW))  # a periodic window
    frames = _frame(waveform, num_samples) * tf.constant(hann)
    spectrum = tf.signal.rfft(frames, [WINDOW])  # [batch, num_frames, 201]
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    energies = tf.tensordot(power, mel_weights(num_mel_bins), axes=1)
    decades = tf.math.log(tf.maximum(energies, _FLOOR)) / np.float32(np.log(10.0))
    is_frame = tf.sequence_mask(num_samples // HOP, tf.shape(decades)[1])[:, :, None]
    loudest = tf.reduce_max(tf.where(is_frame, decades, decades.dtype.min), axis=[1, 2], keepdims=True)
    scaled = (tf.maximum(decades, loudest - _RANGE) + 4.0) / 4.0
    return tf.where(is_frame, scaled, tf.zeros_like(scaled))


def _frame(waveform, num_samples):
    """Returns windows centred on every HOP-th sample, float32 [batch, max_samples // HOP, WINDOW]."""
    centres = HOP * tf.range(tf.shape(waveform)[1] // HOP)
    places = centres[:, None] + tf.range(-(WINDOW // 2), WINDOW - WINDOW // 2)  # [num_frames, WINDOW]
    last = tf.maximum(num_samples - 1, 1)[:, None, None]
    # A signal that is reflected without repeating its end samples has a period of twice the last index. The
    # indices are made positive first, because ONNX computes remainders of negative numbers differently.
    reflected = last - tf.abs(tf.math.floormod(places + WINDOW * last, 2 * last) - last)
    is_inside = reflected < tf.shape(waveform)[1]  # a one-sample waveform has no second sample to reflect
    return tf.gather(waveform, tf.where(is_inside, reflected, 0), axis=1, batch_dims=1)


def mel_weights(num_mel_bins: int) -> np.ndarray:
    """Returns Slaney's equal-area triangular filters for 0 to 8 kHz, float32 [201, num_mel_bins].

    The filters equal librosa.filters.mel(sr=16000, n_fft=400), from which Whisper's filter file was made.
    """
    frequencies = np.linspace(0.0, SAMPLE_RATE / 2, WINDOW // 2 + 1)[:, None]
    edges = _mel_to_hz(np.linspace(0.0, _hz_to_mel(SAMPLE_RATE / 2), num_mel_bins + 2))
    lower, center, upper = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies - lower) / (center - lower), (upper - frequencies) / (upper - center)
    return np.float32(np.maximum(0.0, np.minimum(rising, falling)) * 2.0 / (upper - lower))


def _hz_to_mel(hz: float) -> float:
    return _LINEAR_MELS + np.log(hz / _LINEAR_HZ) / _LOG_STEP  # above 1 kHz


def _mel_to_hz(mels: np.ndarray) -> np.ndarray:
    linear = mels * _LINEAR_HZ / _LINEAR_MELS
    return np.where(mels < _LINEAR_MELS, linear, _LINEAR_HZ * np.exp(_LOG_STEP * (mels - _LINEAR_MELS)))
