"""Transmission channels for augmented copies: lossy codecs, the telephone, and reduced bandwidth.

A channel preserves the number of samples and their timing: LAME and Opus delay the signal by about 1,100 and
300 samples, but their file headers state the delay, and libsndfile's decoders remove it. At low constant bit
rates, LAME does not write such a header, so MP3 is encoded at an average bit rate.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable
from typing import Optional

import numpy as np
import soundfile
import soxr

from tfrecord_builder import errors

_CODED_RATE = 16000  # supported by all three codecs; at 24 kbit/s, for example, LAME keeps up to 5.8 kHz
_BLOCK = 1 << 16  # samples per write; libsndfile's Vorbis encoder copies a whole write onto the stack
_TELEPHONE_RATE = 8000
# ITU-T G.712: flat from 300 to 3400 Hz, silent below 200 Hz and above 3700 Hz.
_TELEPHONE_HZ = (200.0, 300.0, 3400.0, 3700.0)


@dataclasses.dataclass(frozen=True)
class Channel:
    """A transmission channel with one setting: a bit rate, quality, cutoff frequency or sample rate."""

    name: str  # template for the channel's name in the ids of copies; {} stands for the setting
    lowest: int  # lowest value of the setting, with the most loss
    highest: int  # highest value of the setting
    # Transmits samples, float32 [num_samples] in [-1, 1] at the channel's rate, with a setting.
    transmit: Callable[[np.ndarray, int], np.ndarray]
    subtype: str = ""  # libsndfile subtype that the channel needs; empty if all versions support the channel
    rate: Optional[int] = _CODED_RATE  # sample rate in Hz; None means twice the setting

    def sample(self, uniform: float) -> int:
        """Converts a uniform number in [0, 1) to a setting whose logarithm is uniformly distributed."""
        return round(self.lowest * (self.highest / self.lowest) ** uniform)


def transmit(waveform: np.ndarray, sample_rate: int, codec: str, setting: int) -> np.ndarray:
    """Sends a waveform, float32 [num_samples], through one of CHANNELS; sample_rate is in Hz.

    Returns float32 [num_samples]. A waveform that exceeds [-1, 1] is scaled down and afterwards back up.
    """
    if not len(waveform):
        return waveform  # MP3 cannot encode an empty file
    channel, scale = CHANNELS[codec], np.float32(np.abs(waveform).max(initial=1.0))
    rate, samples = channel.rate or 2 * setting, waveform / scale
    if rate != sample_rate:
        num_samples = -(-len(samples) * rate // sample_rate)
        samples = _fit(soxr.resample(samples, sample_rate, rate), num_samples)
    samples = channel.transmit(samples, setting)
    if rate != sample_rate:
        samples = soxr.resample(samples, rate, sample_rate)
    return _fit(samples, len(waveform)) * scale


def require(names: Iterable[str]) -> None:
    """Raises UserError unless the installed libsndfile has the encoders that these channels need."""
    for name in names:
        subtype = CHANNELS[name].subtype
        formats = soundfile.available_formats()
        if subtype and not any(subtype in soundfile.available_subtypes(container) for container in formats):
            raise errors.UserError(
                f"--codecs={name}: libsndfile {soundfile.__libsndfile_version__} cannot encode {name}, "
                "which needs 1.1 or later; install the soundfile wheel, which contains a later libsndfile, "
                f"or leave {name} out."
            )


def _telephone(samples: np.ndarray, _: int) -> np.ndarray:
    """Limits samples to the telephone band, with zero phase, then encodes and decodes them as mu-law."""
    # The filter is circular, so padding is added to keep the end from leaking into the start.
    padded = np.pad(samples.astype(np.float64), [0, _TELEPHONE_RATE // 4])
    spectrum = np.fft.rfft(padded)
    frequencies = np.fft.rfftfreq(len(padded), 1 / _TELEPHONE_RATE)
    spectrum *= np.interp(frequencies, _TELEPHONE_HZ, (0, 1, 1, 0))
    band = np.fft.irfft(spectrum, len(padded))[: len(samples)].astype(np.float32)
    return _code(np.clip(band, -1, 1), "WAV", "ULAW")  # larger values would overrun libsndfile's table


def _fit(samples: np.ndarray, num_samples: int) -> np.ndarray:
    """Cuts samples to num_samples, or pads them with zeros."""
    return np.pad(samples[:num_samples], [0, max(0, num_samples - len(samples))])


def _code(samples: np.ndarray, container: str, subtype: str, **options) -> np.ndarray:
    """Encodes and decodes float32 [num_samples] in memory, as if the sample rate were 16 kHz."""
    with io.BytesIO() as file:
        with soundfile.SoundFile(file, "w", _CODED_RATE, 1, subtype, format=container, **options) as encoder:
            for start in range(0, len(samples), _BLOCK):
                encoder.write(samples[start : start + _BLOCK])
        file.seek(0)
        return soundfile.read(file, dtype="float32")[0]


def _encoder(container: str, subtype: str, worst: int, best: int, **options) -> Callable:
    """Returns Channel.transmit for a codec; settings `worst` and `best` become compression levels 1 and 0."""
    return lambda samples, setting: _code(
        samples, container, subtype, compression_level=(best - setting) / (best - worst), **options
    )


# The numbers are the lowest and highest bit rates in kbit/s (those of MPEG-2 for MP3), or Vorbis qualities.
_mp3 = _encoder("MP3", "MPEG_LAYER_III", 8, 160, bitrate_mode="AVERAGE")
_opus = _encoder("OGG", "OPUS", 6, 256)
_vorbis = _encoder("OGG", "VORBIS", 0, 10)
CHANNELS = {
    "mp3": Channel("mp3-{}kbps", 16, 64, _mp3, "MPEG_LAYER_III"),
    "opus": Channel("opus-{}kbps", 8, 32, _opus, "OPUS"),
    "vorbis": Channel("vorbis-quality{}", 1, 6, _vorbis, "VORBIS"),
    "telephone": Channel("telephone", _TELEPHONE_RATE, _TELEPHONE_RATE, _telephone, rate=_TELEPHONE_RATE),
    "lowpass": Channel("lowpass-{}Hz", 3400, 7000, lambda samples, _: samples, rate=None),
}
