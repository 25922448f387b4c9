"""Voices of eSpeak NG: they are distinct, and their recordings have level, silence and noise of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tfrecord_builder.synthesis import voices

RATE = 16000
TONE = np.sin(2 * np.pi * 200 * np.arange(RATE) / RATE).astype(np.float32)  # one second
QUIET = voices.Voice("f1", "f1", 175, 50, 50, level_db=6.0, noise_db=None)


def test_there_are_47_variants():
    assert len(set(voices.VARIANTS)) == len(voices.VARIANTS) == 47


def test_voices_differ_in_speed_pitch_level_and_noise():
    made = [voices.make_voice(variant, seed=1) for variant in voices.VARIANTS]
    assert len({voice.words_per_minute for voice in made}) > 20
    assert len({voice.pitch for voice in made}) > 10
    assert max(v.level_db for v in made) - min(v.level_db for v in made) > 12
    assert 10 < sum(voice.noise_db is not None for voice in made) < len(made) - 10
    assert (
        voices.make_voice("f1", seed=1) == voices.make_voice("f1", seed=1) != voices.make_voice("f1", seed=2)
    )


def test_a_variant_has_several_voices():
    first, second = voices.make_voice("f1", 1), voices.make_voice("f1", 1, number=2)
    assert (first.name, second.name, second.variant) == ("f1", "f1-2", "f1")
    assert (first.pitch, first.words_per_minute) != (second.pitch, second.words_per_minute)


def test_record_sets_the_level_and_adds_silence():
    recorded = voices.record(TONE, RATE, QUIET, np.random.RandomState(0))
    assert np.max(np.abs(recorded)) == pytest.approx(10 ** (-6 / 20), abs=1e-5)
    assert 0.1 * RATE <= len(recorded) - len(TONE) <= 0.6 * RATE
    assert np.all(recorded[: int(0.05 * RATE)] == 0)


def test_record_adds_noise_with_the_signal_to_noise_ratio_of_the_voice():
    noisy = dataclasses.replace(QUIET, noise_db=20.0, level_db=0.0)
    recorded = voices.record(TONE, RATE, noisy, np.random.RandomState(0))
    before = recorded[: int(0.05 * RATE)]  # the shortest silence there can be
    speech = recorded[len(recorded) // 2 - RATE // 4 : len(recorded) // 2 + RATE // 4]
    assert 20 * np.log10(np.std(speech) / np.std(before)) == pytest.approx(20, abs=5)
