"""Texts and utterances that one report has wrong and another right."""

from __future__ import annotations

from estimator_asr.scoring import attribution, utterances
from estimator_asr.scoring.reports import comparison_page


def align(reference, hypothesis):
    sides = [attribution.pair(text, []) for text in (reference, hypothesis)]
    return attribution.attribute(*sides, attribution.KnownVocabularies())


def test_texts_whose_errors_differ_are_listed():
    a = [align("他在他里", "她在她里"), align("我", "你")]
    b = [align("他在他里", "他在她理"), align("我", "你")]
    assert comparison_page.count_texts([a, b]) == [["他", 2, [2, 1]], ["里", 1, [0, 1]]]


def test_only_utterances_with_different_numbers_of_errors_are_shown():
    def score(name, hypothesis):
        return utterances.score(utterances.CHARACTER_ERROR_RATE, name, "s", "他在", hypothesis)

    reports = {
        "A": {
            utterances.CHARACTER_ERROR_RATE: [score("u1", "她在"), score("u2", "她在"), score("u3", "他在")]
        },
        "B": {
            utterances.CHARACTER_ERROR_RATE: [score("u1", "他在"), score("u2", "他再"), score("u3", "他在")]
        },
    }
    page = comparison_page.render(utterances.CHARACTER_ERROR_RATE, ["a sentence & <more>"], reports)
    assert (
        '"utterances":[["u1","s",[[{"r":"他","h":"她"' in page and '"u2"' not in page and '"u3"' not in page
    )
    assert "<li>a sentence &amp; &lt;more&gt;</li>" in page
