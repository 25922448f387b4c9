"""Voices of eSpeak NG: variants of its Mandarin voice with random speed, pitch, level and noise."""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np

from tfrecord_builder.synthesis import prompts

# Variants that sound human and keep the tones; this rules out whispers (Alicia half whispers) and robots.
VARIANTS = tuple(
    (
        "Alex Andy Annie Denis Diogo Gene Henrique Lee Mario Michael Mike Nguyen Reed adam announcer "
        "aunty belinda benjamin boris david edward f1 f3 f4 grandma ian john klatt4 linda m1 m3 m4 m6 m7 max "
        "michel paul f5 m5 miguel rob f2 m2 pablo steph victor Gene2"
    ).split()
)


@dataclasses.dataclass(frozen=True)
class Voice:
    """A speaker of eSpeak NG."""

    name: str
    variant: str  # eSpeak NG's name for the timbre
    words_per_minute: int  # eSpeak NG's unit of speed; 175 is about 3.6 syllables per second
    pitch: int  # 0 to 100; 50 is the variant's default
    pitch_range: int  # 0 to 100; 50 is the variant's default
    level_db: float  # peak of a recording, in dB below full scale
    noise_db: Optional[float]  # signal-to-noise ratio in dB; None for no noise


def make_voice(variant: str, seed: int, number: int = 1) -> Voice:
    """Makes a random voice from a variant; `number`, from 1, distinguishes voices with the same variant."""
    name = variant if number == 1 else f"{variant}-{number}"
    rng = prompts.random_state(seed, name)
    return Voice(
        name=name,
        variant=variant,
        words_per_minute=int(rng.randint(155, 215)),
        pitch=int(rng.randint(38, 63)),
        pitch_range=int(rng.randint(42, 65)),
        level_db=float(rng.uniform(2, 20)),
        noise_db=float(rng.uniform(18, 35)) if rng.uniform() < 0.5 else None,
    )


def record(speech: np.ndarray, sample_rate: int, voice: Voice, rng: np.random.RandomState) -> np.ndarray:
    """Adds random silence before and after the speech, then noise, and scales the peak to the voice's level.

    Args:
        speech: samples, float32 [num_samples].
        sample_rate: in Hz.
        voice: its level and noise are used.
        rng: random generator for silence and noise.

    Returns:
        float32 [num_samples + silence], within [-1, 1].
    """
    before, after = (rng.uniform(0.05, 0.3, size=2) * sample_rate).astype(int)
    padded = np.pad(speech, (before, after))
    if voice.noise_db is not None:
        noise = _pink_noise(len(padded), rng)
        padded = padded + noise * np.std(speech, dtype=np.float64) * 10 ** (-voice.noise_db / 20)
    peak = 10 ** (-voice.level_db / 20)
    return (padded * peak / np.max(np.abs(padded))).astype(np.float32)


def _pink_noise(num_samples: int, rng: np.random.RandomState) -> np.ndarray:
    """Returns noise with an RMS of 1 whose spectrum falls by 3 dB per octave, as that of room noise does."""
    spectrum = np.fft.rfft(rng.standard_normal(num_samples))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), num_samples)
    return noise / np.std(noise)
