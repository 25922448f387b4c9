"""Advice: the numbers of metrics.json in sentences."""

from __future__ import annotations

from estimator_asr.scoring import attribution
from estimator_asr.scoring.reports import formats, scored_split


def values(counts, oracle=None):
    total = sum(counts.values())
    causes = {
        cause: {"errors": counts.get(cause, 0), "fraction": counts.get(cause, 0) / max(1, total)}
        for cause in attribution.CAUSES
    }
    return {
        "attribution": causes,
        "floors": {} if oracle is None else {scored_split.N_BEST_ORACLE: {"errors": oracle}},
    }


def test_models_next_step_and_floors():
    counts = {attribution.TONE: 3, attribution.FINAL: 4, attribution.HOMOPHONE: 6}
    given = values(counts, oracle=4)
    given["floors"][scored_split.REFERENCE_PINYIN] = {"errors": 8}
    assert list(formats.list_advice(given, False)) == [
        "13 errors: 7 of the acoustic model (54 %), 6 of the language model, whose syllables were heard "
        "right (46 %).",
        # Homophones are more frequent than wrong finals, but the acoustic model makes more errors.
        "Work on the first of these. Most frequent among them, 4: the final is wrong, the initial is right. "
        "Next: train on more speakers of these accents.",
        "If each syllable had been heard right, 8 errors would remain: hearing better can bring 38 % at "
        "most.",
        "If the best hypothesis of each n-best list were chosen, 4 errors would remain: ranking better can "
        "bring 69 % at most, of which hearing better brings a part too.",
    ]


def test_each_cause_has_its_advice():
    for cause, text in attribution.CAUSES.items():
        _, sentence, *_ = formats.list_advice(values({cause: 1}), False)
        assert f"Most frequent among them, 1: {text}. Next: " in sentence


def test_floors_that_are_no_better_bring_nothing():
    (*_, sentence) = formats.list_advice(values({attribution.TONE: 2}, oracle=3), False)
    assert "3 errors would remain: ranking better can bring 0 % at most" in sentence


def test_one_error():
    sentence, *_ = formats.list_advice(values({attribution.TONE: 1}), False)
    assert sentence == "1 error: 1 of the acoustic model (100 %)."


def test_a_model_that_writes_nothing():
    (sentence,) = formats.list_advice(values({attribution.DELETION: 9}), is_silent=True)
    assert sentence.startswith("The model writes nothing for any utterance. Look at its loss")


def test_nothing_wrong_needs_no_advice():
    assert list(formats.list_advice(values({}), False)) == []
    assert list(formats.list_advice(values({}), is_silent=True)) == []
