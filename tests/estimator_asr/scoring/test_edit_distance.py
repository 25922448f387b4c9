from __future__ import annotations

import jiwer
import numpy as np
import pytest

from estimator_asr.scoring import edit_distance


@pytest.mark.parametrize(
    ("reference", "hypothesis", "counts"),
    [
        ("ni3 hao3", "ni3 hao3", (0, 0, 0, 2)),
        ("ni3 hao3", "ni2 hao3", (1, 0, 0, 2)),
        ("ni3 hao3", "ni3 hao3 ma5", (0, 1, 0, 2)),
        ("ni3 hao3", "hao3", (0, 0, 1, 2)),
        ("ni3 hao3", "", (0, 0, 2, 2)),
        ("", "ni3 hao3 ma5", (0, 3, 0, 0)),
        ("", "", (0, 0, 0, 0)),
        ("a b c d", "b c x d e", (0, 2, 1, 4)),
    ],
)
def test_counts_of_hand_made_pairs(reference, hypothesis, counts):
    edits = edit_distance.count_edits(reference.split(), hypothesis.split())
    assert edits == counts
    assert edits.errors == sum(counts[:3])


def test_tokens_are_compared_whole():
    assert edit_distance.count_edits(["shi4", "si4"], ["shi4si4"]).errors == 2
    assert edit_distance.count_edits(["<unk>"], ["你"]).errors == 1


def test_agrees_with_jiwer_on_random_pairs():
    rng = np.random.default_rng(0)
    for _ in range(100):
        reference = rng.choice(list("abcde"), rng.integers(1, 12)).tolist()
        hypothesis = rng.choice(list("abcde"), rng.integers(0, 12)).tolist()
        expected = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
        errors = expected.substitutions + expected.insertions + expected.deletions
        assert edit_distance.count_edits(reference, hypothesis).errors == errors


def test_confused_pairs_has_each_edit_with_none_for_the_missing_side():
    pairs = edit_distance.confused_pairs("a b c d e f".split(), "x b d e f g".split())
    assert pairs == [("a", "x"), ("c", None), (None, "g")]


def test_unknown_in_a_hypothesis_is_never_right():
    assert edit_distance.count_edits(["ni3", "<unk>"], ["ni3", "<unk>"]) == (1, 0, 0, 2)
    assert edit_distance.confused_pairs(["<unk>"], ["<unk>"]) == [("<unk>", "<unk>")]
