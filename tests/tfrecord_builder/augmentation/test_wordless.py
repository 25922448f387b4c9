"""Sounds without words: what they are made of, how long and how loud they are."""

import numpy as np
import pytest

from tfrecord_builder.augmentation import wordless

RATE = 16000
SPEECH = np.sin(np.arange(RATE) * 0.3).astype(np.float32)
SEEDS = range(60)


@pytest.mark.parametrize("kind", wordless.KINDS)
def test_sounds_have_many_lengths_and_levels_and_each_seed_has_its_own(kind):
    sounds = [wordless.make(kind, seed, SPEECH, RATE) for seed in SEEDS]
    seconds = np.array([len(each) for each in sounds]) / RATE
    levels = [10 * np.log10(np.mean(np.square(each, dtype=np.float64))) for each in sounds]
    assert all(np.isfinite(each).all() and each.dtype == np.float32 for each in sounds)
    assert 0.5 <= seconds.min() < 2 and 8 < seconds.max() <= 10
    assert -75 < min(levels) < -45 and -20 < max(levels) < -9.9
    assert len({each.tobytes() for each in sounds}) == len(sounds)
    np.testing.assert_array_equal(wordless.make(kind, 7, SPEECH, RATE), sounds[7])


def test_some_sounds_are_clipped_and_some_have_digital_silence_but_none_is_silent():
    sounds = [wordless.make("noise", seed, SPEECH, RATE) for seed in range(200)]
    num_clipped = sum(np.count_nonzero(each == each.max()) > 5 for each in sounds)
    num_paused = sum(np.count_nonzero(each == 0) > RATE // 10 for each in sounds)
    assert 15 <= num_clipped <= 50 and 20 <= num_paused <= 70
    assert all(each.any() for each in sounds)


def test_coloured_noise_falls_with_the_frequency_or_rises():
    ratios = []
    for seed in SEEDS:
        sound = wordless.coloured_noise(np.random.default_rng(seed), np.zeros(4 * RATE), RATE)
        power = np.square(np.abs(np.fft.rfft(sound)))
        low, high = (power[4 * hz : 8 * hz].mean() for hz in (300, 3000))
        ratios.append(10 * np.log10(low / high))
    assert min(ratios) < -3 and max(ratios) > 20


def test_the_power_of_tones_lies_in_a_few_bins():
    for seed in SEEDS:
        sound = wordless.tones(np.random.default_rng(seed), np.zeros(RATE), RATE)
        power = np.sort(np.square(np.abs(np.fft.rfft(sound))))[::-1]
        assert power[:400].sum() > 0.75 * power.sum()


def test_babble_is_as_many_voices_of_the_recording(monkeypatch):
    """With voices that do not change, a recording that has one sample has as many as there are voices."""
    monkeypatch.setattr(wordless.soxr, "resample", lambda waveform, *_: waveform)
    click = np.zeros(RATE)
    click[0] = 1
    counts = [wordless.babble(np.random.default_rng(seed), click, RATE).sum() for seed in SEEDS]
    assert {*counts} == {8, 9, 10, 11, 12}
