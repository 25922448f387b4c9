"""The tables at the end of the demo."""

import json
import pathlib

from estimator_asr.demo import tables


def test_columns_with_hanzi_are_aligned():
    """A hanzi takes up two terminal columns."""
    assert tables.align([("a", "北京", "x"), ("bcd", "ef", "y")]) == ["  a    北京  x", "  bcd  ef    y"]


def test_transcripts_count_the_errors_of_each_recording_and_mark_unsure_characters(tmp_path):
    output = tmp_path / "transcripts.jsonl"
    confidences = [{"你": 0.99, "好": 0.8, "吗？": 0.95}, {"一": 0.79, "天。": 0.9}]
    lines = []
    for each in confidences:
        rows = [{"character": key[0], "mark": key[1:], "confidence": value} for key, value in each.items()]
        lines.append(json.dumps({"punctuated": "".join(each), "characters": rows}) + "\n")
    output.write_text("".join(lines), encoding="utf-8")
    recordings = [{"id": "a", "text": "你好，吗？"}, {"id": "b", "text": "二天吧！"}]
    assert tables.transcripts(recordings, output) == [
        "  recording  reference   hypothesis  hanzi wrong  marks wrong",
        "  a          你好，吗？  你好吗？    0 of 3       1 of 2",
        "  b          二天吧！    [一]天。    2 of 3       1 of 1",
        "  [] marks characters with a confidence below 80 %",
    ]


def test_mark_rates_list_the_groups_of_marks(tmp_path):
    rate = {"precision": 1.0, "recall": 0.5, "f1": 0.6667, "confidence_interval": [0.5, 0.75]}
    rates = {"commas_stops_questions": rate, "all_marks": rate, "？": rate}
    (tmp_path / "metrics.json").write_text(json.dumps({"marks": rates}))
    found = "F1 66.67 % (95 % interval 50.00 to 75.00 %), precision 100.00 %, recall 50.00 %"
    assert tables.mark_rates(tmp_path) == [
        "Punctuation marks on the test split",
        f"  commas stops questions  {found}",
        f"  all marks               {found}",
    ]


def test_error_rates_list_every_metric_of_every_report(tmp_path):
    rate = {"rate": 0.0125, "errors": 5, "reference_length": 400, "confidence_interval": [0.008, 0.019]}
    metrics = {"token_error_rate": rate, "character_error_rate": rate}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    assert tables.error_rates({"cascade": tmp_path})[1:] == [
        "  cascade  token error rate      1.25 % (95 % interval 0.80 to 1.90 %)",
        "  cascade  character error rate  1.25 % (95 % interval 0.80 to 1.90 %)",
    ]


def test_durations_end_with_their_sum():
    lines = tables.durations({"Speak": 20.4, "Train": 100.2})
    assert lines == ["Seconds", "  Speak  20", "  Train  100", "  total  121"]


def test_next_commands_contain_the_paths_of_this_demo():
    text = "\n".join(tables.next_commands(pathlib.Path("demo")))
    assert "-m tensorboard.main --logdir=demo" in text
    assert "-m estimator_asr.transcribe --saved_model=demo/export YOUR.wav" in text
    assert "-m estimator_asr.serve --saved_model=demo/export" in text
    assert "demo/report/cascade/report.html" in text
