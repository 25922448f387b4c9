"""Tests the floors: the error rates that would remain if one part made no errors."""

from estimator_asr.scoring import attribution, edit_distance, utterances
from estimator_asr.scoring.reports import scored_split

CHARACTERS = utterances.CHARACTER_ERROR_RATE


def score(reference, hypothesis):
    return utterances.score(CHARACTERS, "u1", "s", reference, hypothesis)


def test_the_best_hypothesis_is_chosen():
    n_best = [{"transcript": text} for text in ("他再这里", "她在这里", "他在这里", "他在")]
    (found,) = scored_split.choose_oracle(CHARACTERS, [score("他在这里", "他再这里")], [{"n_best": n_best}])
    assert (found.hypothesis, found.edits.errors) == ("他在这里", 0)


def test_the_first_of_equal_hypotheses_is_chosen_and_the_transcript_is_one_of_them():
    n_best = [{"transcript": "她再"}, {"transcript": "它在"}]
    (found,) = scored_split.choose_oracle(CHARACTERS, [score("他在", "他再")], [{"n_best": n_best}])
    assert found.hypothesis == "他再"


def test_there_is_no_oracle_without_n_best_lists():
    assert scored_split.choose_oracle(CHARACTERS, [score("他", "她")], [{"transcript": "她"}]) == []
    assert scored_split.choose_oracle(CHARACTERS, [], []) == []


def test_vocabulary_floor_counts_only_units_outside_of_the_vocabularies():
    row, units = score("他在这里", "甲"), attribution.pair("他在这里", [])
    known = attribution.KnownVocabularies(characters=set("他在"))
    (found,) = scored_split.reach_all([row], [units], known)
    assert found.edits == edit_distance.Edits(2, 0, 0, 4)
