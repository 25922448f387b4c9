"""Advice: the numbers of metrics.json in sentences."""

from __future__ import annotations

from estimator_asr.scoring import attribution, floors
from estimator_asr.scoring.reports import advice


def values(counts, oracle=None):
    total = sum(counts.values())
    causes = {
        cause: {"errors": counts.get(cause, 0), "fraction": counts.get(cause, 0) / max(1, total)}
        for cause in attribution.CAUSES
    }
    return {
        "attribution": causes,
        "floors": {} if oracle is None else {floors.N_BEST_ORACLE: {"errors": oracle}},
    }


def test_models_next_step_and_floors():
    counts = {attribution.TONE: 3, attribution.FINAL: 4, attribution.HOMOPHONE: 6}
    given = values(counts, oracle=4)
    given["floors"][floors.REFERENCE_PINYIN] = {"errors": 8}
    found = list(advice.list_advice(given, False))
    assert found[0] == (
        "Of the 13 errors are 54 % in what the acoustic model heard, 46 % in what the language model wrote "
        "for syllables that were heard right."
    )
    # Homophones are more frequent than wrong finals, but the acoustic model makes more errors.
    assert found[1].startswith(
        "Most frequent there, 31 % of all: the final is wrong, the initial is right. Next: see"
    )
    assert found[2:] == [
        "If each syllable had been heard right, 8 errors would remain: hearing better can bring 38 %.",
        "If the best hypothesis of each n-best list were chosen, 4 errors would remain: ranking better can "
        "bring 69 %.",
    ]


def test_each_cause_has_its_advice():
    for cause, text in attribution.CAUSES.items():
        _, sentence, *_ = advice.list_advice(values({cause: 1}), False)
        assert sentence.startswith(f"Most frequent there, 100 % of all: {text}. Next: ")


def test_floors_that_are_no_better_are_not_named():
    assert len(list(advice.list_advice(values({attribution.TONE: 2}, oracle=2), False))) == 2


def test_a_model_that_writes_nothing():
    (sentence,) = advice.list_advice(values({attribution.DELETION: 9}), is_silent=True)
    assert sentence.startswith("The model writes nothing for any utterance. Look at its loss")


def test_nothing_wrong_needs_no_advice():
    assert list(advice.list_advice(values({}), False)) == []
