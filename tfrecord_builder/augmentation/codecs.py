"""Transmission channels of augmented copies: lossy codecs, the telephone, and a lower bandwidth.

A channel keeps the number of samples and moves nothing in time: LAME and Opus delay the signal by about
1,100 and 300 samples, which their file headers state and libsndfile's decoders remove. LAME leaves that
header out of files of a low constant bit rate, so MP3 is coded with an average bit rate.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable, Iterable

import numpy as np
import soundfile
import soxr

from tfrecord_builder import errors

_CODED_RATE = 16000  # all three codecs support it; LAME then cuts 24 kbit/s at 5.8 kHz
_BLOCK = 1 << 16  # samples per call: libsndfile's Vorbis encoder puts a whole call on the stack
_MP3_KBPS = (8, 160)  # of MPEG-2, which 16 kHz is; libsndfile's compression level 1 to 0
_OPUS_KBPS = (6, 256)
_TELEPHONE_RATE = 8000
_TELEPHONE_HZ = (200.0, 300.0, 3400.0, 3700.0)  # ITU-T G.712: flat between the inner two, silent outside


@dataclasses.dataclass(frozen=True)
class Channel:
    """What a waveform may pass through.

    Attributes:
        name: format of the channel and its setting, in the ids of copies.
        lowest: of the setting (bit rate, quality, cutoff or sample rate), at which the channel loses most.
        highest: of the setting.
        transmit: changes float32 [num_samples] in [-1, 1] at a sample rate in Hz with a setting.
        subtype: of libsndfile's encoder; empty if it needs none.
    """

    name: str
    lowest: int
    highest: int
    transmit: Callable[[np.ndarray, int, int], np.ndarray]
    subtype: str = ""

    def sample(self, uniform: float) -> int:
        """Returns the setting for a number in [0, 1): each octave of the range is as likely."""
        return round(self.lowest * (self.highest / self.lowest) ** uniform)


def transmit(waveform: np.ndarray, sample_rate: int, codec: str, setting: int) -> np.ndarray:
    """Sends a waveform, float32 [num_samples] at a sample rate in Hz, through a channel of CHANNELS.

    Returns:
        float32 [num_samples]. A waveform that exceeds -1 and 1 is scaled for the channel and scaled back.
    """
    if not len(waveform):
        return waveform  # too short for a frame, even at its own speed; MP3 has no empty files
    scale = np.float32(np.abs(waveform).max(initial=1.0))
    return CHANNELS[codec].transmit(waveform / scale, sample_rate, setting) * scale


def describe(codec: str, setting: int) -> str:
    """Returns a channel and its setting as the id of a copy has them."""
    return CHANNELS[codec].name.format(setting)


def require(names: Iterable[str]) -> None:
    """Raises UserError unless the installed libsndfile has the encoders of these channels."""
    for name in names:
        subtype = CHANNELS[name].subtype
        containers = soundfile.available_formats()
        if subtype and not any(subtype in soundfile.available_subtypes(each) for each in containers):
            raise errors.UserError(
                f"--codecs={name}: libsndfile {soundfile.__libsndfile_version__} has no encoder for it, "
                f"expected 1.1 or later; install soundfile's own wheel, or leave {name} out."
            )


def _mp3(waveform: np.ndarray, sample_rate: int, kbps: int) -> np.ndarray:
    level = (_MP3_KBPS[1] - kbps) / (_MP3_KBPS[1] - _MP3_KBPS[0])
    code = functools.partial(_code, container="MP3", subtype="MPEG_LAYER_III", bitrate_mode="AVERAGE")
    return _at_rate(_CODED_RATE, waveform, sample_rate, functools.partial(code, compression_level=level))


def _opus(waveform: np.ndarray, sample_rate: int, kbps: int) -> np.ndarray:
    level = (_OPUS_KBPS[1] - kbps) / (_OPUS_KBPS[1] - _OPUS_KBPS[0])
    code = functools.partial(_code, container="OGG", subtype="OPUS", compression_level=level)
    return _at_rate(_CODED_RATE, waveform, sample_rate, code)


def _vorbis(waveform: np.ndarray, sample_rate: int, quality: int) -> np.ndarray:
    code = functools.partial(_code, container="OGG", subtype="VORBIS", compression_level=1 - quality / 10)
    return _at_rate(_CODED_RATE, waveform, sample_rate, code)


def _telephone(waveform: np.ndarray, sample_rate: int, _: int) -> np.ndarray:
    def call(samples: np.ndarray) -> np.ndarray:
        return _code(_pass_band(samples), container="WAV", subtype="ULAW")

    return _at_rate(_TELEPHONE_RATE, waveform, sample_rate, call)


def _lowpass(waveform: np.ndarray, sample_rate: int, cutoff_hz: int) -> np.ndarray:
    return _at_rate(2 * cutoff_hz, waveform, sample_rate, lambda samples: samples)


def _at_rate(rate: int, waveform: np.ndarray, sample_rate: int, change: Callable) -> np.ndarray:
    """Applies a change to a waveform at another sample rate."""
    if rate == sample_rate:
        return _fit(change(waveform), len(waveform))
    changed = change(
        _fit(soxr.resample(waveform, sample_rate, rate), -(-len(waveform) * rate // sample_rate))
    )
    return _fit(soxr.resample(changed, rate, sample_rate), len(waveform))


def _fit(samples: np.ndarray, num_samples: int) -> np.ndarray:
    return np.pad(samples[:num_samples], [0, max(0, num_samples - len(samples))])


def _code(samples: np.ndarray, container: str, subtype: str, **options) -> np.ndarray:
    """Encodes float32 [num_samples] in memory, as 16 kHz whatever their rate is, and decodes it."""
    with io.BytesIO() as file:
        with soundfile.SoundFile(file, "w", _CODED_RATE, 1, subtype, format=container, **options) as encoder:
            for start in range(0, len(samples), _BLOCK):
                encoder.write(samples[start : start + _BLOCK])
        file.seek(0)
        return soundfile.read(file, dtype="float32")[0]


def _pass_band(samples: np.ndarray) -> np.ndarray:
    """Keeps the band of the telephone of float32 [num_samples] at 8 kHz, with zero phase."""
    padded = np.pad(samples.astype(np.float64), [0, _TELEPHONE_RATE // 4])  # the end must not reach the start
    spectrum = np.fft.rfft(padded)
    frequencies = np.fft.rfftfreq(len(padded), 1 / _TELEPHONE_RATE)
    spectrum *= np.interp(frequencies, _TELEPHONE_HZ, (0, 1, 1, 0))
    return np.fft.irfft(spectrum, len(padded))[: len(samples)].astype(np.float32)


CHANNELS = {
    "mp3": Channel("mp3-{}kbps", 16, 64, _mp3, "MPEG_LAYER_III"),
    "opus": Channel("opus-{}kbps", 8, 32, _opus, "OPUS"),
    "vorbis": Channel("vorbis-quality{}", 1, 6, _vorbis, "VORBIS"),
    "telephone": Channel("telephone", _TELEPHONE_RATE, _TELEPHONE_RATE, _telephone),
    "lowpass": Channel("lowpass-{}Hz", 3400, 7000, _lowpass),
}
