"""The benchmark of decoding: its posteriors, and that both of our sides write what they contain."""

from __future__ import annotations

import numpy as np

from benchmarks import decoding

CONFIG = decoding.BenchmarkConfig(num_utterances=16, num_frames=20, num_classes=30)


def test_posteriors_are_distributions_with_a_token_every_five_frames():
    log_probs = decoding.make_posteriors(CONFIG)
    assert log_probs.shape == (16, 20, 30)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1, rtol=1e-4)
    blank = np.exp(log_probs[..., -1])
    assert np.median(blank[:, [0, 1, 3, 4]]) > 0.99
    assert np.median(blank[:, 2::5]) < 0.5


def test_skipped_blanks_change_no_text():
    log_probs = decoding.make_posteriors(CONFIG)
    whole, skipping = (decoding.build_ours(30, limit) for limit in (1.0, 0.99))
    assert whole(log_probs) == skipping(log_probs)
    assert [text for each in log_probs for text in whole(each[None])] == whole(log_probs)
    assert np.mean([len(text) for text in whole(log_probs)]) > 3  # of four frames with tokens


def test_bars(capsys):
    """Sides that return at once: milliseconds are few, and utterances a second are many."""
    sides = {"ours": lambda: ["a", "b"], "batches": lambda: ["a", "b"], "peer": lambda: ["a", "c"]}
    found = decoding.time_sides(sides, 2, rounds=2)
    assert [bar.what for bar in found] == [
        "one utterance, milliseconds",
        "batches of 16, utterances a second",
        "batches of 16, times as fast as peer",
    ]
    assert found[0].is_met and found[1].is_met
    assert [line.split()[-2] for line in capsys.readouterr().out.splitlines()[1:]] == ["100", "100", "50"]
