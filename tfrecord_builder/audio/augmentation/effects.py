"""Applies the changes of an augmented copy in this order: speed, reverberation, noise, volume, codec.

The order follows the path of the sound: speaker, room, other sounds in the room, microphone, transmission.
Speed perturbation is from Ko et al. 2015, "Audio augmentation for speech recognition"; reverberation and
noise are from Ko et al. 2017, "A study on data augmentation of reverberant speech for robust speech
recognition".
"""

from __future__ import annotations

import functools

import numpy as np
import soxr

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.audio.augmentation import codecs, copies, sounds

_CACHED_RIRS = 32  # impulse responses last at most 10 s, so 32 need at most 20 MB at 16 kHz


def apply(waveform: np.ndarray, sample_rate: int, variant: copies.Variant) -> np.ndarray:
    """Applies a variant to a waveform, float32 [num_samples]; sample_rate is in Hz.

    Returns float32 [num_samples / speed], or the waveform itself if the variant changes nothing. Samples may
    exceed [-1, 1]: features are computed from floats, so nothing is clipped. Raises UserError if the impulse
    response or the noise cannot be used.
    """
    if variant.is_wordless:
        waveform = sounds.make(variant.sound, variant.sound_seed, waveform, sample_rate)
    elif variant.sound:
        sound = sounds.make(variant.sound, variant.sound_seed, waveform, sample_rate, len(waveform))
        waveform = add_noise(waveform, sound, variant.snr_db)
    if variant.speed != 1:
        # Tempo, pitch and formants change together, as with `speed` in SoX and Kaldi.
        waveform = soxr.resample(waveform, variant.speed, 1.0)
    if variant.room:
        waveform = reverberate(waveform, _read_rir(variant.room, sample_rate))
    if variant.noise:
        waveform = add_noise(waveform, _read_noise(variant, len(waveform), sample_rate), variant.snr_db)
    if variant.volume_db:
        waveform = waveform * np.float32(10 ** (variant.volume_db / 20))
    if variant.codec:
        waveform = codecs.transmit(waveform, sample_rate, variant.codec, variant.codec_setting)
    return waveform


def reverberate(waveform: np.ndarray, rir: np.ndarray) -> np.ndarray:
    """Convolves a waveform, float32 [num_samples], with a room impulse response, float32 [num_rir_samples].

    Returns the convolution, float32 [num_samples], scaled to the energy of the waveform, without the delay of
    the direct path (the index of the response's largest sample).
    """
    num_samples = len(waveform)
    length = num_samples + len(rir) - 1
    # The length is rounded up so that all prime factors are small and the FFT is fast.
    fft_length = min(odd << max(0, -(-length // odd) - 1).bit_length() for odd in (1, 3, 5, 9, 15))
    # numpy 2 would compute float32 FFTs in float32, so the last bits would differ from those of numpy 1.
    spectrum, response = (np.fft.rfft(samples.astype(np.float64), fft_length) for samples in (waveform, rir))
    direct = int(np.argmax(np.abs(rir)))
    reverberant = np.fft.irfft(spectrum * response, fft_length)[direct : direct + num_samples]
    power = _power(reverberant)
    scale = np.sqrt(_power(waveform) / power) if power else 1.0
    return (reverberant * scale).astype(np.float32)


def add_noise(waveform: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    """Adds noise, float32 [num_samples], at a signal-to-noise ratio in dB; ignores silent noise."""
    power = _power(noise)
    if not power:
        return waveform
    return waveform + noise * np.float32(np.sqrt(_power(waveform) / power) * 10 ** (-snr_db / 20))


@functools.lru_cache(maxsize=_CACHED_RIRS)
def _read_rir(path: str, sample_rate: int) -> np.ndarray:
    # Only the first channel is used, because averaging several microphones would act as a comb filter.
    rir = _read(path, sample_rate, channel=0)
    if not rir.any():
        raise errors.UserError(f"{path}: the room impulse response is silent; remove the file.")
    return rir


def _read_noise(variant: copies.Variant, num_samples: int, sample_rate: int) -> np.ndarray:
    """Reads num_samples of noise, starting at the variant's offset; repeats recordings that are too short."""
    read = functools.partial(_read, variant.noise, sample_rate)
    seconds, offset = num_samples / sample_rate, variant.noise_offset_seconds
    segment = read(start_seconds=offset, seconds=min(seconds, variant.noise_seconds - offset))
    if len(segment) < num_samples:
        whole = read(seconds=min(seconds, variant.noise_seconds))
        segment = np.concatenate([segment, np.resize(whole, num_samples)])
    return segment[:num_samples]


def _read(path: str, sample_rate: int, **segment) -> np.ndarray:
    samples = audio_files.read_audio(path, sample_rate, **segment)
    if not np.isfinite(samples).all():
        raise errors.UserError(f"{path}: some samples are NaN or Inf; remove the file from the directory.")
    return samples


def _power(samples: np.ndarray) -> float:
    """Returns the mean square of the samples."""
    return float(np.mean(np.square(samples, dtype=np.float64)))
