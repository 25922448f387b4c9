"""What is written for a recording, in every format."""

from __future__ import annotations

import json

from estimator_asr.serving.transcripts import captions


def make_segment(start, text):
    character = {"character": text, "pinyin": "a1", "start": 0.5, "end": 0.54, "confidence": 0.9}
    result = {
        "transcript": text,
        "status": "ok",
        "pinyin": "a1",
        "acoustic_score": -1.0,
        "language_score": -2.0,
    }
    result.update(confidence=0.9, characters=[character], n_best=[{"transcript": text, "score": -3.0}])
    return captions.TranscriptSegment(start, start + 2.0, result)


SHORT = captions.Transcript("a.wav", [make_segment(0.0, "好")])
LONG = captions.Transcript("a.wav", [make_segment(1.0, "你"), make_segment(40.0, "好")], is_cut=True)


def test_tsv():
    assert captions.render(SHORT, "tsv") == "a.wav\t好\ta1\n"
    assert captions.render(LONG, "tsv") == "a.wav\t你好\ta1 a1\n"


def test_json_of_a_short_recording_is_the_result_of_the_model():
    assert json.loads(captions.render(SHORT, "json")) == {"file": "a.wav", **SHORT.segments[0].result}


def test_json_of_a_long_recording_has_segments_and_times_from_its_start():
    found = json.loads(captions.render(LONG, "json"))
    assert [item["start"] for item in found["characters"]] == [1.5, 40.5]
    assert found["segments"] == [
        {"start": 1.0, "end": 3.0, "transcript": "你", "confidence": 0.9},
        {"start": 40.0, "end": 42.0, "transcript": "好", "confidence": 0.9},
    ]


def test_json_of_a_long_recording_without_speech():
    found = json.loads(captions.render(captions.Transcript("a.wav", [], is_cut=True), "json"))
    assert found == {
        "file": "a.wav",
        "transcript": "",
        "pinyin": "",
        "greedy_pinyin": "",
        "confidence": 0.0,
        "characters": [],
        "n_best": [{"transcript": "", "score": 0.0}],
        "acoustic_score": 0.0,
        "language_score": 0.0,
        "status": "ok",
        "segments": [],
    }


def test_text_and_captions():
    assert captions.render(LONG, "txt") == "你\n好\n"
    assert captions.render(SHORT, "srt") == "1\n00:00:00,300 --> 00:00:01,300\n好\n\n"
    assert captions.render(SHORT, "vtt") == "WEBVTT\n\n00:00:00.300 --> 00:00:01.300\n好\n\n"
