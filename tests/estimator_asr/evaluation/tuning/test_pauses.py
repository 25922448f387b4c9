"""Tests the choice of the weight of pauses, with texts in which only pauses indicate marks."""

import numpy as np
import pytest

from estimator_asr.evaluation.tuning import pauses
from estimator_asr.experiment import config as config_lib
from tfrecord_builder import errors
from tfrecord_builder.data import marks


def make_text(reference, seconds, comma_log_odds):
    """Returns a text in which a comma has these log odds after each character; other marks are unlikely."""
    characters, _ = marks.split(reference)
    scores = np.full([len(characters), len(marks.MARKS)], -50.0, np.float32)
    scores[:, 0], scores[:, 1] = 0.0, comma_log_odds
    return pauses.PausedText(reference, characters, np.float32(seconds), scores)


def test_punctuate_adds_a_mark_where_the_pause_outweighs_the_text():
    text = make_text("你好吗", [5.0, 0.4, 0.0], -1.5)
    # A pause of 5 s counts as 1 s. A mark always follows the last character.
    weights = {0.0: "你好吗，", 2.0: "你，好吗，", 6.0: "你，好，吗，"}
    for weight, expected in weights.items():
        settings = config_lib.DecodeConfig(pause_weight=weight, pause_offset=0.1)
        assert text.punctuate(settings) == expected


def test_the_best_weight_finds_marks_that_only_pauses_indicate():
    texts = [
        make_text("你好，吗好，", [0.05, 0.35, 0.05, 0.05], -0.5),
        make_text("你，好，", [0.3, 0.05], -0.5),
    ]
    result = pauses.choose_settings(config_lib.DecodeConfig(pause_weight=9.0), texts)
    assert result.f1_without == pytest.approx(2 / 3) and result.f1 == 1  # two of four commas, or all
    assert [text.punctuate(result.settings) for text in texts] == [text.reference for text in texts]


def test_useless_pauses_keep_weight_zero():
    certain = 100 * np.eye(len(marks.MARKS), dtype=np.float32)[marks.split("你，好吗。")[1]]
    texts = [make_text("你，好吗。", [0.5, 0.5, 0.5], 0.0)._replace(scores=certain)]
    result = pauses.choose_settings(config_lib.DecodeConfig(), texts)
    assert result.settings == config_lib.DecodeConfig() and result.f1 == result.f1_without == 1
    assert str(result) == (
        "F1 of ，。？ on 1 utterances: 100.0 % without pauses, 100.0 % with pause_weight 0, pause_offset 0 s"
    )


def test_data_without_marks_are_refused():
    with pytest.raises(
        errors.UserError,
        match="^tune: no transcript in --data_dir has punctuation marks, which --punctuation_model_dir "
        "needs; build the data again with this or a later version, from transcripts with marks$",
    ):
        pauses.choose_settings(config_lib.DecodeConfig(), [])
