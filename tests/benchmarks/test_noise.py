"""The noise of the benchmark, and what it counts."""

from __future__ import annotations

import types

import numpy as np
import pytest

from benchmarks import noise


def power(samples, low, high):
    spectrum = np.square(np.abs(np.fft.rfft(samples)))
    hz = np.fft.rfftfreq(len(samples), 1 / noise.RATE)
    return np.mean(spectrum[(hz >= low) & (hz < high)])


@pytest.mark.parametrize(("name", "ratio"), [("white", 1), ("pink", 4), ("brown", 16)])
def test_the_power_of_noise_two_octaves_lower(name, ratio):
    samples = noise.MAKERS[name](np.random.default_rng(1), 160000)
    assert power(samples, 500, 600) / power(samples, 2000, 2400) == pytest.approx(ratio, rel=0.2)


def test_the_same_items_again_of_1_to_15_s_and_all_kinds():
    makers = {**noise.MAKERS, "babble": noise.make_babble([[np.ones(30000)]] * 3)}
    items, again = (noise.make_items(makers, 240, seed=5) for _ in range(2))
    assert [each.kind for each in items] == [each.kind for each in again]
    np.testing.assert_array_equal(items[3].waveform, again[3].waveform)
    for kind in makers:
        lengths = [len(each.waveform) for each in items if each.kind == kind]
        assert sum(lengths) == 40 * noise.RATE and max(lengths) <= 15 * noise.RATE
    assert all(np.isfinite(each.waveform).all() and np.abs(each.waveform).max() <= 1 for each in items)


def test_babble_is_8_to_12_voices():
    babble = noise.make_babble([[np.full(400, 10.0**-i)] for i in range(20)])
    for seed in range(9):
        digits = f"{babble(np.random.default_rng(seed), 1000)[500]:.19f}"
        assert 8 <= digits.count("1") <= 12


def test_voices_of_babble_make_no_pauses():
    word = np.random.default_rng(1).normal(size=1600)
    recording = np.concatenate([np.zeros(1600), word, 1e-2 * word, word, np.zeros(100)])
    np.testing.assert_array_equal(noise.drop_pauses(recording), np.concatenate([word, word]))
    np.testing.assert_array_equal(noise.drop_pauses(0.1 * word[:320]), 0.1 * word[:320])
    assert len(noise.drop_pauses(np.zeros(900))) == 0


def test_a_silent_recording_is_no_voice(monkeypatch, tmp_path):
    (tmp_path / "dev-0.tfrecord").touch()
    items = [types.SimpleNamespace(utterance=types.SimpleNamespace(speaker=name)) for name in ("a", "b")]
    monkeypatch.setattr(noise.items_lib, "read", lambda path: items)
    waveforms = {"a": np.zeros(900), "b": np.full(640, 0.5)}
    read = lambda utterance, *_: waveforms[utterance.speaker]  # noqa: E731
    monkeypatch.setattr(noise.shard_writer, "read_waveform", read)
    ((voice,),) = noise.read_voices([str(tmp_path)])
    np.testing.assert_array_equal(voice, np.ones(640))


def test_what_is_counted():
    written = [noise.Written("hum", 30, 0.5, [0.4, 0.6]), noise.Written("hum", 60, 0.0, [])]
    assert noise.measure(written) == (1.5, 2 / 1.5, 0.5, 0.6)
    assert noise.measure(written[1:]) == (1.0, 0.0, 0.0, 0.0)
