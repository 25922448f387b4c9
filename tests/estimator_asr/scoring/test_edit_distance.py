import jiwer
import kaldialign
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


def random_pairs(letters):
    rng = np.random.default_rng(0)
    for _ in range(300):
        yield tuple(rng.choice(list(letters), rng.integers(low, 20)).tolist() for low in (1, 0))


@pytest.mark.parametrize("letters", ["ab", "abcde", "天地玄黄宇宙洪荒"])
def test_agrees_with_jiwer_and_kaldialign_on_random_pairs(letters):
    """kaldialign may choose another alignment with the same number of errors."""
    for reference, hypothesis in random_pairs(letters):
        edits = edit_distance.count_edits(reference, hypothesis)
        words = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
        assert edits[:3] == (words.substitutions, words.insertions, words.deletions)
        expected = kaldialign.edit_distance(reference, hypothesis)
        assert (edits.errors, edits.reference_length) == (expected["total"], expected["ref_len"])
        assert edits.insertions - edits.deletions == expected["ins"] - expected["del"]


def test_errors_inside_and_outside_of_marked_tokens_add_up():
    for reference, hypothesis in random_pairs("abcde"):
        marked = [[token in "ab" for token in tokens] for tokens in (reference, hypothesis)]
        inside, outside = edit_distance.split_edits(reference, hypothesis, *marked)
        total = edit_distance.count_edits(reference, hypothesis)
        assert tuple(map(sum, zip(inside, outside))) == total
        assert inside.reference_length == sum(marked[0])


def test_marks_of_the_reference_decide_except_for_insertions():
    inside, outside = edit_distance.split_edits("ab", "xby", [True, False], [False, False, True])
    assert (inside, outside) == ((1, 1, 0, 1), (0, 0, 0, 1))


def test_confused_pairs_has_each_edit_with_none_for_the_missing_side():
    pairs = edit_distance.confused_pairs("a b c d e f".split(), "x b d e f g".split())
    assert pairs == [("a", "x"), ("c", None), (None, "g")]


def test_unk_in_a_hypothesis_is_always_an_error():
    assert edit_distance.count_edits(["ni3", "<unk>"], ["ni3", "<unk>"]) == (1, 0, 0, 2)
    assert edit_distance.confused_pairs(["<unk>"], ["<unk>"]) == [("<unk>", "<unk>")]
