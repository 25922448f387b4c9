"""Confusion matrices of tones, initials and finals."""

from __future__ import annotations

from estimator_asr.scoring import attribution
from estimator_asr.scoring.reports import confusion_matrix


def attribute(reference, hypothesis):
    sides = [attribution.pair(text.split(), text.split()) for text in (reference, hypothesis)]
    return attribution.attribute(*sides, attribution.Vocabularies())


def test_right_and_wrong_parts_are_counted():
    found = confusion_matrix.count_all([attribute("ma1 ma3 you3", "ma1 ba3 you4"), attribute("ma1", "ma1")])
    assert found["tones"].counts == {("1", "1"): 2, ("3", "3"): 1, ("3", "4"): 1}
    assert found["initials"].counts == {("m", "m"): 2, ("m", "b"): 1, ("", ""): 1}
    assert found["finals"].counts == {("a", "a"): 3, ("iou", "iou"): 1}


def test_names_are_in_their_usual_order():
    found = confusion_matrix.count_all([attribute("you3 ma1 dianr3", "you3 ba1 dianr3")])
    assert found["initials"].names == ["", "b", "m", "d"]
    assert found["finals"].names == ["a", "iou", "ianr"]
    assert found["initials"].totals == {"": 1, "b": 0, "m": 1, "d": 1}


def test_what_is_no_syllable_is_left_out():
    assert confusion_matrix.count_all([attribute("A b", "A c"), attribute("ma1", "")]) == {}
