"""Synthesises sounds without words (noise, tones, music, babble), which teach a model to output nothing.

Each sound depends only on a seed and the recording, so a copy of an utterance is always the same. The
functions in KINDS return float64 [num_samples] at any level; their `recording` is speech, float32 [samples].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import numpy as np
import soxr

_SECONDS = (0.5, 10.0)
_LEVELS_DBFS = (-55.0, -10.0)
_VOICES = (8, 12)  # number of voices in babble
_PIECE_SECONDS = (0.1, 0.8)  # duration of a note, a piece of a voice, or a noise section of constant level
_PERIOD = 2048  # samples in a tone's stored period; a few hundred would suffice for 39 harmonics


def make(
    kind: str, seed: int, recording: np.ndarray, sample_rate: int, num_samples: Optional[int] = None
) -> np.ndarray:
    """Returns a random sound of a kind in KINDS, float32 [num_samples], by default 0.5 to 10 s long.

    Its power is -55 to -10 dBFS, so samples of loud sounds can exceed [-1, 1]. Some sounds are mixed with
    noise, are clipped, or contain a pause of digital silence.
    """
    rng = np.random.default_rng(seed)
    length = num_samples or int(sample_rate * rng.uniform(*_SECONDS))
    samples = _unit(KINDS[kind](rng, recording, length, sample_rate))
    if rng.uniform() < 0.25:
        samples += 10 ** rng.uniform(-1, 0) * _unit(coloured_noise(rng, recording, length, sample_rate))
    samples = _unit(samples) * 10 ** (rng.uniform(*_LEVELS_DBFS) / 20)
    return _damage(rng, samples).astype(np.float32)


def coloured_noise(
    rng: np.random.Generator, recording: np.ndarray, num_samples: int, sample_rate: int
) -> np.ndarray:
    """Returns noise with a spectrum between blue and brown, often limited to a band; its level may vary."""
    hz = np.maximum(np.fft.rfftfreq(num_samples, 1 / sample_rate), 20.0)
    response = hz ** rng.uniform(-1.2, 0.3)
    if rng.uniform() < 0.5:
        centre, octaves = np.exp(rng.uniform(np.log(100), np.log(sample_rate / 2))), rng.uniform(0.3, 2)
        response *= np.exp(-np.square(np.log2(hz / centre) / octaves))
    noise = np.fft.irfft(np.fft.rfft(rng.normal(size=num_samples)) * response, num_samples)
    if rng.uniform() < 0.5:
        for begin, end in _cut(rng, num_samples, sample_rate):
            noise[begin:end] *= 10 ** (rng.uniform(-30, 0) / 20)
    return noise


def tones(rng: np.random.Generator, recording: np.ndarray, num_samples: int, sample_rate: int) -> np.ndarray:
    """Returns a hum or a whistle: steady harmonics with a little noise."""
    samples = _play(rng, np.exp(rng.uniform(np.log(40), np.log(2000))), num_samples, sample_rate)
    return _unit(samples) + 10 ** rng.uniform(-3, -0.5) * rng.normal(size=num_samples)


def music(rng: np.random.Generator, recording: np.ndarray, num_samples: int, sample_rate: int) -> np.ndarray:
    """Returns music: one to four voices of fading notes, with drums."""
    samples = np.zeros(num_samples)
    for _ in range(rng.integers(1, 5)):
        for begin, end in _cut(rng, num_samples, sample_rate):
            seconds = np.arange(end - begin) / sample_rate
            note = _unit(_play(rng, 55 * 2 ** (rng.integers(0, 49) / 12), end - begin, sample_rate))
            samples[begin:end] += rng.uniform(0.2, 1) * np.exp(-rng.uniform(0.2, 8) * seconds) * note
            if rng.uniform() < 0.4:
                hit = np.exp(-rng.uniform(15, 80) * seconds) * rng.normal(size=end - begin)
                samples[begin:end] += rng.uniform(0.2, 2) * hit
    return samples


def babble(rng: np.random.Generator, recording: np.ndarray, num_samples: int, sample_rate: int) -> np.ndarray:
    """Returns 8 to 12 voices made from pieces of the recording at different speeds, about half in reverse."""
    samples = np.zeros(num_samples)
    for _ in range(rng.integers(_VOICES[0], _VOICES[1] + 1)):
        voice = soxr.resample(recording, rng.uniform(0.7, 1.4), 1.0)[:: rng.choice([1, -1])]
        for begin, end in _cut(rng, num_samples, sample_rate):
            samples[begin:end] += np.resize(np.roll(voice, rng.integers(len(voice))), end - begin)
    return samples


KINDS = {"noise": coloured_noise, "tones": tones, "music": music, "babble": babble}


def _damage(rng, samples):
    """Clips some sounds, and inserts a pause into others."""
    choice = rng.uniform()
    if choice < 0.15:
        peak = np.max(np.abs(samples)) * rng.uniform(0.05, 0.5)
        return np.clip(samples, -peak, peak)
    begin, end = np.sort(rng.integers(0, len(samples) + 1, 2))
    if choice < 0.4 and end - begin < 0.9 * len(samples):
        samples[begin:end] = 0.0
    return samples


def _play(rng, hz: float, num_samples: int, sample_rate: int) -> np.ndarray:
    """Returns a tone with or without vibrato: a fundamental at `hz` and its harmonics, up to 39 in all."""
    number = np.arange(1, rng.integers(2, 40))
    number = number[number * hz < sample_rate / 2][:, None]
    loudness = rng.uniform(0, 1, number.shape) / number ** rng.uniform(0.3, 2)
    phases = rng.uniform(0, 2 * np.pi, number.shape)
    period = np.sum(loudness * np.sin(2 * np.pi * number * np.arange(_PERIOD) / _PERIOD + phases), axis=0)
    seconds = np.arange(num_samples) / sample_rate
    vibrato = rng.choice([0, 0.002]) * np.sin(2 * np.pi * rng.uniform(3, 7) * seconds)
    turns = np.cumsum(hz * (1 + vibrato)) / sample_rate
    return period[(_PERIOD * turns).astype(np.int64) % _PERIOD]


def _cut(rng, num_samples: int, sample_rate: int) -> Iterator[tuple[int, int]]:
    """Yields the start and end, in samples, of consecutive pieces of random duration."""
    begin = 0
    while begin < num_samples:
        end = min(num_samples, begin + 1 + int(sample_rate * rng.uniform(*_PIECE_SECONDS)))
        yield begin, end
        begin = end


def _unit(samples):
    """Scales samples to a mean square of 1; leaves silence unchanged."""
    power = np.mean(np.square(samples))
    return samples / np.sqrt(power) if power else samples
