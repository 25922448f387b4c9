"""Rates of parts of syllables and of sentences, on sentences that a person can count."""

from __future__ import annotations

import jiwer
import numpy as np
import pytest

from estimator_asr.scoring import syllable_parts, utterances

INITIALS, FINALS = ("b", "zh", "g", "m"), ("a", "ang", "ai", "e")


def score(*pairs, measure=utterances.TOKEN_ERROR_RATE):
    return [utterances.score(measure, f"u{i}", "s", *pair) for i, pair in enumerate(pairs)]


def count(measures) -> dict[str, tuple]:
    """Name to (errors, reference length) of all utterances together."""
    return {
        name: tuple(
            sum(getattr(each.edits, what) for each in scored) for what in ("errors", "reference_length")
        )
        for name, scored in syllable_parts.rescore(measures)
    }


def count_tokens(*pairs):
    return count({utterances.TOKEN_ERROR_RATE: score(*pairs)})


@pytest.mark.parametrize(
    ("hypothesis", "wrong"),
    [
        ("zhong1 guo2 ren2", []),
        ("zhong4 guo2 ren2", ["tone"]),
        ("zong1 guo2 ren2", ["toneless", "initial"]),
        ("zhang1 guo2 ren2", ["toneless", "final"]),
        ("zhang4 guo2 ren2", ["toneless", "final", "tone"]),
        ("guo2 ren2", ["toneless", "initial", "final", "tone"]),
    ],
)
def test_each_part_has_its_own_errors(hypothesis, wrong):
    found = count_tokens(("zhong1 guo2 ren2", hypothesis))
    assert found.pop("sentence_error_rate") == (1 if wrong else 0, 1)
    assert found == {
        f"{part}_error_rate": (1 if part in wrong else 0, 3)
        for part in ("toneless", "initial", "final", "tone")
    }


def test_letters_are_their_own_parts_and_erhua_is_in_the_final():
    found = count_tokens(("a b dianr3", "a c dian3"))
    assert found["initial_error_rate"] == found["tone_error_rate"] == (1, 3)  # the letter
    assert found["final_error_rate"] == (2, 3)


def test_an_unknown_token_is_wrong_in_every_part():
    assert set(count_tokens(("ma1", "<unk>")).values()) == {(1, 1)}


def test_other_tokens_have_no_parts():
    assert count_tokens(("hello world", "hello")) == {"sentence_error_rate": (1, 1)}


def test_sentences_are_those_of_the_characters():
    tokens = score(("ni3 hao3", "ni3 hao3"), ("ma5", "ma5"))
    characters = score(("你好", "你好"), ("吗", "嘛"), measure=utterances.CHARACTER_ERROR_RATE)
    measures = {utterances.TOKEN_ERROR_RATE: tokens, utterances.CHARACTER_ERROR_RATE: characters}
    assert count(measures)["sentence_error_rate"] == (1, 2)


def test_counts_are_those_of_jiwer():
    rng = np.random.default_rng(0)

    def draw():
        parts = (rng.choice(each, 12) for each in (INITIALS, FINALS, list("1234")))
        return list(zip(*parts))[: rng.integers(1, 12)]

    pairs = [(draw(), draw()) for _ in range(200)]
    found = count_tokens(*((" ".join("".join(each) for each in side) for side in pair) for pair in pairs))
    for place, name in enumerate(("initial", "final", "tone")):
        texts = [[" ".join(each[place] for each in side) for side in sides] for sides in zip(*pairs)]
        measured = jiwer.process_words(*texts)
        errors = measured.substitutions + measured.insertions + measured.deletions
        assert found[f"{name}_error_rate"][0] == errors
