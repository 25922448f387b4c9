"""Sounds without words: their contents, duration and loudness."""

import numpy as np
import pytest

from tfrecord_builder.audio.augmentation import sounds

RATE = 8000
SPEECH = np.sin(np.arange(RATE) * 0.3).astype(np.float32)
SEEDS = range(24)


@pytest.mark.parametrize("kind", sounds.KINDS)
def test_durations_and_levels_vary_with_the_seed(kind):
    made = [sounds.make(kind, seed, SPEECH, RATE) for seed in SEEDS]
    seconds = np.array([len(each) for each in made]) / RATE
    levels = [10 * np.log10(np.mean(np.square(each, dtype=np.float64))) for each in made]
    assert all(np.isfinite(each).all() and each.dtype == np.float32 for each in made)
    assert 0.5 <= seconds.min() < 2 and 8 < seconds.max() <= 10
    assert -75 < min(levels) < -45 and -20 < max(levels) < -9.9
    assert len({each.tobytes() for each in made}) == len(made)
    np.testing.assert_array_equal(sounds.make(kind, 7, SPEECH, RATE), made[7])
    assert len(sounds.make(kind, 7, SPEECH, RATE, num_samples=1234)) == 1234


@pytest.mark.long
def test_some_sounds_are_clipped_and_some_have_digital_silence_but_none_is_silent():
    made = [sounds.make("noise", seed, SPEECH, RATE) for seed in range(100)]
    num_clipped = sum(np.count_nonzero(each == each.max()) > 5 for each in made)
    num_paused = sum(np.count_nonzero(each == 0) > RATE // 10 for each in made)
    assert 7 <= num_clipped <= 25 and 10 <= num_paused <= 35
    assert all(each.any() for each in made)


def test_the_spectrum_of_coloured_noise_falls_or_rises():
    ratios = []
    for seed in SEEDS:
        sound = sounds.coloured_noise(np.random.default_rng(seed), SPEECH, 4 * RATE, RATE)
        power = np.square(np.abs(np.fft.rfft(sound)))
        low, high = (power[4 * hz : 8 * hz].mean() for hz in (200, 1500))
        ratios.append(10 * np.log10(low / high))
    assert min(ratios) < -3 and max(ratios) > 20


def test_the_power_of_tones_lies_in_a_few_bins():
    for seed in SEEDS:
        sound = sounds.tones(np.random.default_rng(seed), SPEECH, RATE, RATE)
        power = np.sort(np.square(np.abs(np.fft.rfft(sound))))[::-1]
        assert power[:400].sum() > 0.75 * power.sum()


def test_notes_of_music_fade(monkeypatch):
    """If a note lasts for the whole piece, its second half is weaker than its first half."""
    monkeypatch.setattr(sounds, "_PIECE_SECONDS", (9.0, 10.0))
    for seed in SEEDS:
        first, second = np.split(sounds.music(np.random.default_rng(seed), SPEECH, 4 * RATE, RATE), 2)
        assert np.sum(np.square(second)) < 0.7 * np.sum(np.square(first))


def test_babble_is_made_of_eight_to_twelve_voices(monkeypatch):
    """If the recording consists of ones, each sample is the number of voices."""
    monkeypatch.setattr(sounds.soxr, "resample", lambda waveform, *_: waveform)
    made = [sounds.babble(np.random.default_rng(seed), np.ones(RATE), RATE, RATE) for seed in SEEDS]
    assert {each[0] for each in made} == {8, 9, 10, 11, 12}
    assert all((each == each[0]).all() for each in made)
