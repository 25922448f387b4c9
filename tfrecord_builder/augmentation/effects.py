"""An utterance's samples changed as a Variant says: speed, room, noise, volume, in this order.

The order is that of sound on its way: the speaker, the room, what else is heard there, the microphone. Speed
after Ko et al. 2015, "Audio augmentation for speech recognition"; room and noise after Ko et al. 2017, "A
study on data augmentation of reverberant speech for robust speech recognition".
"""

from __future__ import annotations

import functools

import numpy as np
import soxr

from tfrecord_builder import audio, errors
from tfrecord_builder.augmentation import copies

_CACHED_ROOMS = 32  # of at most 10 s: 20 MB at 16 kHz


def apply(waveform: np.ndarray, sample_rate: int, variant: copies.Variant) -> np.ndarray:
    """Changes a waveform.

    Args:
      waveform: float32 [num_samples].
      sample_rate: in Hz.
      variant: what to do; one that changes nothing gives the waveform itself.

    Returns:
      float32 [num_samples / speed]. It may go beyond -1 and 1: nothing is clipped, for the features are
        computed of these floats.

    Raises:
      UserError: the room or the noise cannot be read.
    """
    if variant.speed != 1:
        waveform = change_speed(waveform, variant.speed)
    if variant.room:
        waveform = add_room(waveform, _read_room(variant.room, sample_rate))
    if variant.noise:
        waveform = add_noise(waveform, _read_noise(variant, len(waveform), sample_rate), variant.snr_db)
    if variant.volume_db:
        waveform = waveform * np.float32(10 ** (variant.volume_db / 20))
    return waveform


def change_speed(waveform: np.ndarray, speed: float) -> np.ndarray:
    """Plays a waveform faster: tempo, pitch and formants change together, as with SoX's and Kaldi's speed."""
    return soxr.resample(waveform, speed, 1.0)


def add_room(waveform: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Lets a waveform sound in a room.

    Args:
      waveform: float32 [num_samples].
      response: float32 [num_response_samples], the room's impulse response.

    Returns:
      float32 [num_samples]: the convolution from the response's greatest sample (the direct path) on, so that
        nothing moves in time, and scaled to the waveform's energy, so that nothing gets louder.
    """
    num_samples = len(waveform)
    fft_length = _fast_length(num_samples + len(response) - 1)
    spectrum = np.fft.rfft(waveform, fft_length) * np.fft.rfft(response, fft_length)
    direct = int(np.argmax(np.abs(response)))
    heard = np.fft.irfft(spectrum, fft_length)[direct : direct + num_samples]
    power = _power(heard)
    scale = np.sqrt(_power(waveform) / power) if power else 1.0
    return (heard * scale).astype(np.float32)


def add_noise(waveform: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    """Adds noise, float32 [num_samples], so that the waveform's mean power is snr_db above the noise's.

    Noise that is digital silence adds nothing.
    """
    power = _power(noise)
    if not power:
        return waveform
    return waveform + noise * np.float32(np.sqrt(_power(waveform) / power) * 10 ** (-snr_db / 20))


@functools.lru_cache(maxsize=_CACHED_ROOMS)
def _read_room(path: str, sample_rate: int) -> np.ndarray:
    """Reads the first channel of a response: the mean of several microphones would be a comb filter."""
    response = _check(path, audio.read_audio(path, sample_rate, channel=0))
    if not response.any():
        raise errors.UserError(
            f"{path}: the room's response is silent, expected sound; remove it from the folder."
        )
    return response


def _read_noise(variant: copies.Variant, num_samples: int, sample_rate: int) -> np.ndarray:
    """Reads num_samples from the offset on; a recording that ends before goes on from its beginning."""
    wanted = num_samples / sample_rate
    offset = variant.noise_offset_seconds
    part = _read_part(variant.noise, sample_rate, offset, min(wanted, variant.noise_seconds - offset))
    if len(part) < num_samples:
        whole = _read_part(variant.noise, sample_rate, 0.0, min(wanted, variant.noise_seconds))
        part = np.concatenate([part, np.resize(whole, num_samples)])
    return part[:num_samples]


def _read_part(path: str, sample_rate: int, start_seconds: float, seconds: float) -> np.ndarray:
    return _check(path, audio.read_audio(path, sample_rate, start_seconds=start_seconds, seconds=seconds))


def _check(path: str, samples: np.ndarray) -> np.ndarray:
    if not np.isfinite(samples).all():
        raise errors.UserError(
            f"{path}: it has samples that are NaN or infinite, expected none; remove it from the folder."
        )
    return samples


def _power(samples: np.ndarray) -> float:
    return float(np.mean(np.square(samples, dtype=np.float64)))


def _fast_length(length: int) -> int:
    """The next length of small factors, which the FFT takes quickly."""
    return min(odd << max(0, -(-length // odd) - 1).bit_length() for odd in (1, 3, 5, 9, 15))
