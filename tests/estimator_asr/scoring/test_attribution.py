"""Tests the causes of errors with examples by hand, and that they add up to the errors in the error rate."""

import random

import pytest

from estimator_asr.scoring import attribution, edit_distance

EVERYTHING = attribution.KnownVocabularies()


def units(text: str) -> list[attribution.Unit]:
    """Returns the units of a text such as `你/ni3 好/hao3`."""
    return [attribution.Unit(*each.split("/")) for each in text.split()]


def causes(reference: str, hypothesis: str, vocabularies=EVERYTHING) -> list:
    return [each.cause for each in attribution.attribute(units(reference), units(hypothesis), vocabularies)]


TONELESS = attribution.KnownVocabularies(token_type="toneless")
CHARACTERS = attribution.KnownVocabularies(token_type="character")
HAS_SHE = attribution.KnownVocabularies(characters={"她", "马"})
HAS_MA = attribution.KnownVocabularies(characters={"他"}, syllables={"ma3"})
EMPTY = attribution.KnownVocabularies(characters=())


@pytest.mark.parametrize(
    ("reference", "hypothesis", "vocabularies", "expected"),
    [
        ("妈/ma1", "马/ma3", EVERYTHING, [attribution.TONE]),
        ("妈/ma1", "八/ba1", EVERYTHING, [attribution.INITIAL]),
        ("妈/ma1", "八/ba4", EVERYTHING, [attribution.INITIAL]),
        ("妈/ma1", "门/men1", EVERYTHING, [attribution.FINAL]),
        ("妈/ma1", "门/men2", EVERYTHING, [attribution.FINAL]),
        ("妈/ma1", "灯/deng1", EVERYTHING, [attribution.SUBSTITUTION]),
        ("妈/ma1", "", EVERYTHING, [attribution.DELETION]),
        ("", "妈/ma1", EVERYTHING, [attribution.INSERTION]),
        ("他/ta1", "她/ta1", EVERYTHING, [attribution.HOMOPHONE]),
        ("他/ta1", "<unk>/ta1", EVERYTHING, [attribution.HOMOPHONE]),
        ("他/ta1", "他/ta1", EVERYTHING, [None]),
        ("他/ta1", "他/ta2", EVERYTHING, [None]),  # right in spite of a wrong syllable
        ("A/A", "B/B", EVERYTHING, [attribution.LETTER]),
        ("A/A", "", EVERYTHING, [attribution.LETTER]),
        ("", "A/A", EVERYTHING, [attribution.LETTER]),
        ("A/A", "八/ba1", EVERYTHING, [attribution.LETTER]),
        ("，/，", "。/。", EVERYTHING, [attribution.SUBSTITUTION]),
        # A repeated syllable that was recognised only once is a deletion.
        ("他/ta1 她/ta1", "她/ta1", EVERYTHING, [attribution.DELETION, None]),
        ("她/ta1", "他/ta1 她/ta1", EVERYTHING, [attribution.INSERTION, None]),
        ("<unk>/ta1", "<unk>/ta1", EVERYTHING, [attribution.UNREACHABLE]),
        ("他/<unk>", "<unk>/ta1", EVERYTHING, [attribution.UNREACHABLE]),
        # Toneless syllables have parts; other tokens have neither parts nor letters.
        ("妈/ma", "八/ba", TONELESS, [attribution.INITIAL]),
        ("妈/ma", "门/men", TONELESS, [attribution.FINAL]),
        ("A/A", "八/ba", TONELESS, [attribution.LETTER]),
        ("o/o n/n", "a/a", CHARACTERS, [attribution.DELETION, attribution.SUBSTITUTION]),
        # A unit that a vocabulary lacks is unreachable, whatever the hypothesis is; an insertion never is.
        ("他/ta1", "她/ta1", HAS_SHE, [attribution.UNREACHABLE]),
        ("他/ta1", "马/ma3", HAS_SHE, [attribution.UNREACHABLE]),
        ("他/ta1", "<unk>/ta1", HAS_SHE, [attribution.UNREACHABLE]),
        ("他/ta1", "", HAS_SHE, [attribution.UNREACHABLE]),
        ("他/ta1", "马/ma3", HAS_MA, [attribution.UNREACHABLE]),
        ("", "他/ta1", EMPTY, [attribution.INSERTION]),
    ],
)
def test_causes(reference, hypothesis, vocabularies, expected):
    assert causes(reference, hypothesis, vocabularies) == expected


@pytest.mark.parametrize(
    ("reference", "hypothesis"),
    [
        ("是/shi4 市/shi4 式/shi4", "市/shi4 式/shi4 是/shi4"),
        ("在/zai4 是/shi4 市/shi4", "在/zai4 市/shi4 是/shi4"),
    ],
)
def test_shifted_characters_with_right_syllables_are_errors_of_the_language_model(reference, hypothesis):
    """The shortest alignment has an insertion and a deletion."""
    wrong = [cause for cause in causes(reference, hypothesis) if cause]
    assert wrong == [attribution.HOMOPHONE] * 2


def test_syllables_decide_among_shortest_alignments():
    """Two of three units are deleted either way; the third is aligned with the most similar syllable."""
    found = causes("灯/deng1 妈/ma1 在/zai4", "马/ma3")
    assert found == [attribution.DELETION, attribution.TONE, attribution.DELETION]


def test_positions_are_from_left_to_right():
    found = attribution.attribute(units("我/wo3 他/ta1 在/zai4"), units("我/wo3 她/ta1 在/zai4"), EVERYTHING)
    texts = [(each.reference.text, each.hypothesis.text) for each in found]
    assert texts == [("我", "我"), ("他", "她"), ("在", "在")]


def test_units_have_syllables_only_if_there_is_one_for_each():
    assert attribution.pair("你好", ["ni3", "hao3"]) == units("你/ni3 好/hao3")
    assert attribution.pair("OK吗", ["ou1", "ma5"]) == [(text, None) for text in "OK吗"]
    found = attribution.attribute(attribution.pair("，", []), attribution.pair("。", []), EVERYTHING)
    assert [each.cause for each in found] == [attribution.SUBSTITUTION]


def test_causes_add_up_to_the_errors_of_the_error_rate():
    rng = random.Random(0)
    texts = dict(zip("妈马八门灯他她在", "ma1 ma3 ba1 men2 deng1 ta1 ta1 zai4".split()))
    for _ in range(500):
        sides = [[rng.choice([*texts, "<unk>"]) for _ in range(rng.randrange(9))] for _ in range(2)]
        edits = edit_distance.count_edits(*sides)
        pairs = [[attribution.Unit(text, texts.get(text, "a1")) for text in side] for side in sides]
        found = attribution.attribute(*pairs, EVERYTHING)
        assert sum(each.cause is not None for each in found) == edits.errors
        assert [each.reference.text for each in found if each.reference] == sides[0]
        assert [each.hypothesis.text for each in found if each.hypothesis] == sides[1]


def test_counts_and_fractions_which_are_0_without_errors():
    sides = map(units, ("妈/ma1 他/ta1 他/ta1 在/zai4", "马/ma3 她/ta1 她/ta1 在/zai4"))
    counted = attribution.count(attribution.attribute(*sides, EVERYTHING))
    assert list(counted) == list(attribution.CAUSES)
    assert counted[attribution.HOMOPHONE] == {"errors": 2, "fraction": 2 / 3}
    assert counted[attribution.TONE] == {"errors": 1, "fraction": 1 / 3}
    assert counted[attribution.UNREACHABLE] == {"errors": 0, "fraction": 0.0}
    assert attribution.by_model(counted) == {"acoustic": 1, "language": 2, "unreachable": 0}
    assert {each["fraction"] for each in attribution.count([]).values()} == {0.0}
