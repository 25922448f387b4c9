"""The tables at the end of the demo."""

from __future__ import annotations

import json
import pathlib

from estimator_asr.demo import tables


def test_columns_with_hanzi_are_aligned():
    """A hanzi is two terminal columns wide."""
    assert tables.align([("a", "北京", "x"), ("bcd", "ef", "y")]) == ["  a    北京  x", "  bcd  ef    y"]


def test_transcripts_count_the_errors_of_each_recording_and_mark_unsure_characters(tmp_path):
    output = tmp_path / "transcripts.jsonl"
    confidences = [{"你": 0.99, "好": 0.8, "吗": 0.95}, {"一": 0.79, "天": 0.9}]
    lines = [
        {
            "transcript": "".join(each),
            "characters": [{"character": key, "confidence": value} for key, value in each.items()],
        }
        for each in confidences
    ]
    output.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    recordings = [{"id": "a", "text": "你好吗"}, {"id": "b", "text": "二天吧"}]
    assert tables.transcripts(recordings, output) == [
        "  recording  reference  hypothesis  errors",
        "  a          你好吗     你好吗      0 of 3",
        "  b          二天吧     [一]天      2 of 3",
        "  [] marks characters with a confidence below 80 %",
    ]


def test_error_rates_list_every_metric_of_every_report(tmp_path):
    rate = {"rate": 0.0125, "errors": 5, "reference_length": 400, "confidence_interval": [0.008, 0.019]}
    (tmp_path / "metrics.json").write_text(
        json.dumps({"token_error_rate": rate, "character_error_rate": rate})
    )
    assert tables.error_rates({"cascade": tmp_path})[1:] == [
        "  cascade  token error rate      1.25 % (95 % interval 0.80 to 1.90 %)",
        "  cascade  character error rate  1.25 % (95 % interval 0.80 to 1.90 %)",
    ]


def test_durations_end_with_their_sum():
    assert tables.durations({"Speak": 20.4, "Train": 100.2}) == [
        "Seconds",
        "  Speak  20",
        "  Train  100",
        "  total  121",
    ]


def test_next_commands_contain_the_paths_of_this_demo():
    text = "\n".join(tables.next_commands(pathlib.Path("demo")))
    assert "-m tensorboard.main --logdir=demo" in text
    assert "-m estimator_asr.transcribe --saved_model=demo/export YOUR.wav" in text
    assert "demo/report/cascade/report.html" in text
