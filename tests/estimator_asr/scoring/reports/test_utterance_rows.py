"""The rows of the report's tables."""

from __future__ import annotations

import os

from estimator_asr.scoring import attribution, utterances
from estimator_asr.scoring.reports import utterance_rows
from tfrecord_builder.data import recordings

HOMOPHONE = list(attribution.CAUSES).index(attribution.HOMOPHONE)
DELETION = list(attribution.CAUSES).index(attribution.DELETION)


def attribute(reference, hypothesis, spoken):
    sides = [attribution.pair(*each) for each in zip((reference, hypothesis), spoken)]
    return attribution.attribute(*sides, attribution.Vocabularies())


def test_right_texts_are_joined_and_errors_are_named():
    positions = attribute("我在他里", "我在她", (["wo3", "zai4", "ta1", "li3"], ["wo3", "zai4", "ta1"]))
    assert utterance_rows.align(positions) == [
        "我在",
        {"r": "他", "h": "她", "s": ["ta1", "ta1"], "c": HOMOPHONE},
        {"r": "里", "h": None, "s": ["li3", None], "c": DELETION},
    ]


def test_tokens_of_several_letters_stay_apart():
    tokens = ["ni3", "hao3"]
    assert utterance_rows.align(attribute(tokens, tokens, (tokens, tokens))) == [tokens]


def test_rows():
    scored = [
        utterances.score(utterances.CHARACTER_ERROR_RATE, name, speaker, "我", "我")
        for name, speaker in (("u1", "b"), ("u2", "a"))
    ]
    positions = [attribute("我", "我", (["wo3"], ["wo3"]))] * 2
    outputs = [{"utterance_id": "u1", "confidence": 0.98765}, {"utterance_id": "u2"}]
    assert utterance_rows.list_rows(scored, positions, outputs, {"u2": -20.04}) == {
        "speakers": ["a", "b"],
        "utterances": [["u1", 1, None, 0.988, ["我"]], ["u2", 0, -20.0, None, ["我"]]],
    }


def test_files_share_their_root():
    found = {
        "u1": recordings.Recording("/corpus/a b/1.wav"),
        "u2": recordings.Recording("/corpus/a b/2.wav", 1.5, 2.0),
        "u3": recordings.Recording("/elsewhere/3.wav"),
        "u4": recordings.Recording("s3://bucket/4.wav"),
    }
    assert utterance_rows.list_files(found, {"u3"}) == {
        "root": "file:///corpus/a%20b/",
        "rest": {"u1": "1.wav", "u2": "2.wav#t=1.5,3.5"},
    }
    assert os.path.commonprefix([]) == utterance_rows.list_files({}, ())["root"]
