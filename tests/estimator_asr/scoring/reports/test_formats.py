"""Tests the advice in a report: sentences about the numbers in metrics.json."""

import pytest

from estimator_asr.scoring import attribution
from estimator_asr.scoring.reports import formats, scored_split


def values(counts, oracle=None):
    total = sum(counts.values())
    causes = {
        cause: {"errors": counts.get(cause, 0), "fraction": counts.get(cause, 0) / max(1, total)}
        for cause in attribution.CAUSES
    }
    floors = {} if oracle is None else {scored_split.N_BEST_ORACLE: {"errors": oracle}}
    return {"attribution": causes, "floors": floors}


def test_advice_names_models_next_step_and_floors():
    counts = {attribution.TONE: 3, attribution.FINAL: 4, attribution.HOMOPHONE: 6}
    given = values(counts, oracle=4)
    given["floors"][scored_split.REFERENCE_PINYIN] = {"errors": 8}
    assert list(formats.list_advice(given, False)) == [
        "13 errors: 7 of the acoustic model (54 %), 6 of the language model, given correct syllables (46 %).",
        # Homophones are more frequent than wrong finals, but the acoustic model makes more errors.
        "Start with the errors of the acoustic model. The most frequent cause among them (4): the final is "
        "wrong, the initial is right. Next: train on more speakers with these accents.",
        "If every syllable had been recognised correctly, 8 errors would remain: a better acoustic model can "
        "remove at most 38 % of the errors.",
        "If the best hypothesis of each n-best list had been chosen, 4 errors would remain: better ranking "
        "can remove at most 69 % of the errors, some of which a better acoustic model removes too.",
    ]


def test_each_cause_has_its_advice():
    for cause, text in attribution.CAUSES.items():
        _, sentence, *_ = formats.list_advice(values({cause: 1}), False)
        assert f"The most frequent cause among them (1): {text}. Next: " in sentence


@pytest.mark.parametrize(
    ("remaining", "gain"), [(300, None), (250, None), (249, None), (245, "2 %"), (0, "100 %")]
)
def test_a_floor_is_named_only_if_it_removes_errors(remaining, gain):
    said = " ".join(formats.list_advice(values({attribution.TONE: 250}, oracle=remaining), False))
    assert ("better ranking" in said) == (gain is not None)
    expected = f"{remaining} errors would remain: better ranking can remove at most {gain} of the errors"
    assert gain is None or expected in said


def test_one_error_is_not_one_errors():
    sentence, *_ = formats.list_advice(values({attribution.TONE: 1}), False)
    assert sentence == "1 error: 1 of the acoustic model (100 %)."
    *_, sentence = formats.list_advice(values({attribution.TONE: 2}, oracle=1), False)
    assert "chosen, 1 error would remain: better ranking" in sentence
    silent = {**values({attribution.DELETION: 1}), "global_step": 1}
    (sentence,) = formats.list_advice(silent, is_silent=True)
    assert "too little data (1 step), or" in sentence


def test_advice_for_a_model_that_outputs_nothing():
    given = {**values({attribution.DELETION: 9}), "global_step": 36, "token_error_rate": {"rate": 1.0}}
    assert list(formats.list_advice(given, is_silent=True)) == [
        "The model outputs nothing for any utterance. Most likely it has seen too little data (36 steps), or "
        "different data. Train it longer, or on more data like this. If that does not help, the labels may "
        "not match the audio: check the loss in TensorBoard, and run doctor on the model and the data."
    ]


def test_above_half_wrong_the_advice_is_more_training():
    counts = {attribution.DELETION: 60, attribution.HOMOPHONE: 31}
    given = {**values(counts), "global_step": 1036, "token_error_rate": {"rate": 0.4}}
    given["character_error_rate"] = {"rate": 0.91}
    assert list(formats.list_advice(given, False)) == [
        "The model is mostly wrong. Most likely it has seen too little data (1,036 steps), or different "
        "data. Train it longer, or on more data like this, before you look at individual causes.",
        "91 errors: 60 of the acoustic model (66 %), 31 of the language model, given correct "
        "syllables (34 %).",
    ]
    given["character_error_rate"] = {"rate": 0.5}
    assert "listen for speech that is cut off" in list(formats.list_advice(given, False))[1]


def test_unreachable_characters_are_named_at_any_error_rate():
    given = {**values({attribution.UNREACHABLE: 9}), "character_error_rate": {"rate": 0.9}}
    first, _, last = formats.list_advice(given, False)
    assert first.startswith("The model is mostly wrong. Most likely it has seen too little data (few steps)")
    assert last.endswith("Next: build with text that contains these characters, and train both models again.")


def test_insertions_without_a_reference_get_the_usual_advice():
    given = {**values({attribution.INSERTION: 9}), "character_error_rate": {"rate": None}}
    assert "listen for background voices and noise" in list(formats.list_advice(given, False))[1]


def test_there_is_no_advice_without_errors():
    assert list(formats.list_advice(values({}), False)) == []
    assert list(formats.list_advice(values({}), is_silent=True)) == []
