"""Sounds without words, from which a model learns to write nothing: noise, tones, music, many voices at once.

A seed makes each of them, so that a copy of an utterance is always the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import soxr

_SECONDS = (0.5, 10.0)
_LEVELS_DBFS = (-55.0, -10.0)
_VOICES = (8, 12)  # of babble
_PIECE_SECONDS = (0.1, 0.8)  # of a note, of a voice, and of what has one loudness


def make(kind: str, seed: int, waveform: np.ndarray, sample_rate: int) -> np.ndarray:
    """Returns a sound of one of KINDS, float32 [num_samples] at a sample rate in Hz; it may exceed -1 and 1.

    The waveform, float32 [num_speech_samples], is a recording of speech, which babble is made of.
    """
    rng = np.random.default_rng(seed)
    waveform = np.resize(waveform, int(sample_rate * rng.uniform(*_SECONDS)))
    samples = _unit(KINDS[kind](rng, waveform.astype(np.float64), sample_rate))
    if rng.uniform() < 0.25:  # two sounds at once
        samples += 10 ** rng.uniform(-1, 0) * _unit(coloured_noise(rng, waveform, sample_rate))
    samples = _unit(samples) * 10 ** (rng.uniform(*_LEVELS_DBFS) / 20)
    damage = rng.uniform()
    if damage < 0.15:  # clipped
        peak = np.max(np.abs(samples)) * rng.uniform(0.05, 0.5)
        samples = np.clip(samples, -peak, peak)
    elif damage < 0.4:  # a pause of digital silence
        begin, end = np.sort(rng.integers(0, len(samples) + 1, 2))
        samples[begin:end] *= end - begin > 0.9 * len(samples)
    return samples.astype(np.float32)


def coloured_noise(rng: np.random.Generator, waveform: np.ndarray, sample_rate: int) -> np.ndarray:
    """Returns noise from blue to brown, often of one band, whose loudness may change."""
    hz = np.maximum(np.fft.rfftfreq(len(waveform), 1 / sample_rate), 20.0)
    response = hz ** rng.uniform(-1.2, 0.3)
    if rng.uniform() < 0.5:
        centre, octaves = np.exp(rng.uniform(np.log(100), np.log(sample_rate / 2))), rng.uniform(0.3, 2)
        response *= np.exp(-np.square(np.log2(hz / centre) / octaves))
    noise = np.fft.irfft(np.fft.rfft(rng.normal(size=len(waveform))) * response, len(waveform))
    return noise * _loudness(rng, len(waveform), sample_rate) if rng.uniform() < 0.5 else noise


def tones(rng: np.random.Generator, waveform: np.ndarray, sample_rate: int) -> np.ndarray:
    """Returns hum or a whistle: steady harmonics, and a little noise."""
    samples = _harmonics(rng, np.exp(rng.uniform(np.log(40), np.log(2000))), len(waveform), sample_rate)
    return _unit(samples) + 10 ** rng.uniform(-3, -0.5) * rng.normal(size=len(samples))


def music(rng: np.random.Generator, waveform: np.ndarray, sample_rate: int) -> np.ndarray:
    """Returns one to four voices of notes that fade, and drums."""
    samples = np.zeros(len(waveform))
    for begin, end in _pieces(rng, len(samples), sample_rate, rng.integers(1, 5)):
        hz = 55 * 2 ** (rng.integers(0, 49) / 12)
        fade = np.exp(-rng.uniform(0.2, 8) * np.arange(end - begin) / sample_rate)
        samples[begin:end] += (
            rng.uniform(0.2, 1) * fade * _unit(_harmonics(rng, hz, end - begin, sample_rate))
        )
        if rng.uniform() < 0.4:
            hit = np.exp(-rng.uniform(15, 80) * np.arange(end - begin) / sample_rate)
            samples[begin:end] += rng.uniform(0.2, 2) * hit * rng.normal(size=end - begin)
    return samples


def babble(rng: np.random.Generator, waveform: np.ndarray, sample_rate: int) -> np.ndarray:
    """Returns voices of pieces of the recording, each at another speed, half of them backwards."""
    samples = np.zeros(len(waveform))
    for _ in range(rng.integers(_VOICES[0], _VOICES[1] + 1)):
        voice = soxr.resample(waveform, rng.uniform(0.7, 1.4), 1.0)[:: rng.choice([1, -1])]
        for begin, end in _pieces(rng, len(samples), sample_rate, 1):
            samples[begin:end] += np.resize(np.roll(voice, rng.integers(len(voice))), end - begin)
    return samples


KINDS = {"noise": coloured_noise, "tones": tones, "music": music, "babble": babble}


def _harmonics(rng, hz: float, num_samples: int, sample_rate: int) -> np.ndarray:
    number = np.arange(1, rng.integers(2, 40))
    number = number[number * hz < sample_rate / 2]
    loudness = rng.uniform(0, 1, len(number)) / number ** rng.uniform(0.3, 2)
    phases = rng.uniform(0, 2 * np.pi, len(number))
    seconds = np.arange(num_samples) / sample_rate
    bend = 1 + rng.choice([0, 0.02]) * np.sin(2 * np.pi * rng.uniform(3, 7) * seconds) / 10
    turns = np.cumsum(hz * bend) / sample_rate
    return sum(a * np.sin(2 * np.pi * n * turns + p) for a, n, p in zip(loudness, number, phases))


def _loudness(rng, num_samples: int, sample_rate: int) -> np.ndarray:
    gains = np.zeros(num_samples)
    for begin, end in _pieces(rng, num_samples, sample_rate, 1):
        gains[begin:end] = 10 ** (rng.uniform(-30, 0) / 20)
    return gains


def _pieces(rng, num_samples: int, sample_rate: int, num_voices: int) -> Sequence[tuple[int, int]]:
    pieces = []
    for _ in range(num_voices):
        begin = 0
        while begin < num_samples:
            end = min(num_samples, begin + 1 + int(sample_rate * rng.uniform(*_PIECE_SECONDS)))
            pieces.append((begin, end))
            begin = end
    return pieces


def _unit(samples: np.ndarray) -> np.ndarray:
    power = np.mean(np.square(samples))
    return samples / np.sqrt(power) if power else samples
