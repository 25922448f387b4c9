"""The transcript of a recording in every format, and the joined result of its segments."""

import json
import re

import pytest
import recognition_results

from estimator_asr.serving.transcripts import captions

CLOCK = re.compile(r"^(\d{2,}):([0-5]\d):([0-5]\d)[.,](\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d)[.,](\d{3})$")


def make_segment(text, start=0.0, step=0.25, seconds=None):
    """Returns a segment with a character every `step` seconds."""
    times = [0.3 + step * i for i in range(len(text))]
    result = recognition_results.make(text, times, has_marks=False)
    return captions.TranscriptSegment(start, start + (seconds or 0.6 + step * len(text)), result)


def read_times(text):
    """Returns the start and end of each caption in milliseconds."""
    found = [CLOCK.match(line) for line in text.splitlines() if " --> " in line]
    numbers = [[int(part) for part in match.groups()] for match in found]
    return [
        tuple(((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (row[:4], row[4:])) for row in numbers
    ]


TWO = [make_segment("你好", 0.0), make_segment("吗", 3661.5)]


def test_srt_is_numbered_and_vtt_has_a_header():
    first, second = "00:00:00,100 --> 00:00:01,100\n你好\n\n", "01:01:01,600 --> 01:01:02,350\n吗\n\n"
    assert captions.to_srt(TWO) == f"1\n{first}2\n{second}"
    assert captions.to_vtt(TWO) == f"WEBVTT\n\n{first}{second}".replace(",", ".")


def test_more_than_99_hours():
    assert "100:00:00,100 --> 100:00:00,850\n" in captions.to_srt([make_segment("好", 360000.0)])


def test_vtt_escapes_markup_and_arrows():
    segment = make_segment("a<b>&-->")
    assert "\na&lt;b&gt;&amp;--&gt;\n" in captions.to_vtt([segment])
    assert "\na<b>&-->\n" in captions.to_srt([segment])


def test_a_text_with_line_breaks_stays_one_caption():
    segment = make_segment("好\n\n好")
    assert captions.to_vtt([segment]).count("\n\n") == 2
    assert captions.to_text([segment]) == "好 好\n"


def test_a_file_name_with_tabs_and_line_breaks_stays_one_field():
    found = captions.Transcript("a\tb\nc\r\x1b\u2028\u3000号.wav", [make_segment("你好")])
    line = "a\\tb\\nc\\r\\x1b\\u2028\u3000号.wav\t你好\t你1 好1\n"
    assert captions.render(found, "tsv") == line
    assert json.loads(captions.render(found, "json"))["file"] == found.path


def test_no_speech_has_no_captions():
    silent = make_segment("", seconds=2.0)
    assert captions.to_srt([silent]) == captions.to_text([silent]) == ""
    assert captions.to_vtt([silent]) == "WEBVTT\n\n"


@pytest.mark.parametrize("write", [captions.to_srt, captions.to_vtt])
def test_times_of_captions_neither_overlap_nor_go_back(write):
    segments = [make_segment("一二三四五六七八九十" * 6), make_segment("好", 5.0), make_segment("吗", 4.0)]
    times = read_times(write(segments))
    assert len(times) >= 5
    assert all(start < end for start, end in times)
    assert all(before[1] <= after[0] for before, after in zip(times, times[1:]))


def test_text_has_a_line_for_each_segment_with_words():
    segments = [make_segment("你好"), make_segment("", 3.0), make_segment("吗", 5.0)]
    assert captions.to_text(segments) == "你好\n吗\n"


def test_one_segment_from_the_start_is_its_result():
    segment = make_segment("你好")
    assert captions.join([segment]) is segment.result


def test_joined_segments():
    joined = captions.join([make_segment("你好"), make_segment("", 3.0), make_segment("吗", 10.0)])
    assert (joined["transcript"], joined["pinyin"], joined["confidence"]) == ("你好吗", "你1 好1 吗1", 0.5)
    assert (joined["acoustic_score"], joined["language_score"]) == (-4.5, -6.0)
    assert [(item["character"], item["start"], item["end"]) for item in joined["characters"]] == [
        ("你", 0.3, 0.34),
        ("好", 0.55, 0.59),
        ("吗", 10.3, 10.34),
    ]


def test_joined_scores_have_the_digits_of_float32():
    segments = [make_segment("你", start) for start in (0.0, 2.0, 4.0)]
    for segment in segments:
        segment.result.update(acoustic_score=0.1, language_score=-557.98796)
        segment.result["n_best"][0]["score"] = 0.1
        segment.result["characters"][0]["confidence"] = 0.1
    assert sum([0.1] * 3) == 0.30000000000000004
    joined = captions.join(segments)
    assert (joined["acoustic_score"], joined["language_score"]) == (0.3, -1673.9639)
    assert (joined["confidence"], joined["n_best"][0]["score"]) == (0.1, 0.3)


def test_joined_n_best_has_no_duplicate_texts():
    """Each segment can be 你 or 你你, so there are two ways to write 你你你."""
    segments = [make_segment("你", start) for start in (0.0, 2.0)]
    for segment in segments:
        segment.result["n_best"][1]["transcript"] = "你你"
    assert captions.join(segments)["n_best"] == [
        {"transcript": "你你", "score": -2.0},
        {"transcript": "你你你", "score": -4.0},
        {"transcript": "你你你你", "score": -6.0},
    ]


def test_an_output_without_a_rule_is_not_copied_from_the_first_segment():
    segments = [make_segment("你"), make_segment("好", start=1.0)]
    for segment in segments:
        segment.result["speaker"] = "A"
    with pytest.raises(KeyError, match="speaker"):
        captions.join(segments)


@pytest.mark.parametrize("first, second, want", [("silent", "ok", "ok"), ("silent", "empty", "silent")])
def test_status_of_joined_segments(first, second, want):
    segments = [make_segment("", 0.0), make_segment("好", 5.0)]
    for segment, status in zip(segments, (first, second)):
        segment.result["status"] = status
    assert captions.join(segments)["status"] == want


def test_n_best_of_joined_segments_are_the_best_sums():
    joined = captions.join([make_segment("你"), make_segment("好", 2.0)])
    assert joined["n_best"][0] == {"transcript": "你好", "score": -2.0}
    assert sorted(item["transcript"] for item in joined["n_best"][1:3]) == ["你差", "差好"]
    assert joined["n_best"][3] == {"transcript": "差差", "score": -6.0}


def test_latin_words_and_pinyin_are_joined_by_a_space():
    assert captions.join_texts(["ni3 hao3", "", "ma5"]) == "ni3 hao3 ma5"
    assert captions.join_texts(["你好", "app", "好"]) == "你好app好"


SHORT = captions.Transcript("a.wav", [make_segment("好")])
LONG = captions.Transcript("a.wav", [make_segment("你", 1.0), make_segment("好", 40.00004)], is_cut=True)


def test_tsv():
    assert captions.render(SHORT, "tsv") == "a.wav\t好\t好1\n"
    assert captions.render(LONG, "tsv") == "a.wav\t你好\t你1 好1\n"


def test_json_of_a_short_recording_is_the_result_of_the_model():
    assert json.loads(captions.render(SHORT, "json")) == {"file": "a.wav", **SHORT.segments[0].result}


def test_json_of_a_long_recording_has_segments_and_times_from_its_start():
    found = json.loads(captions.render(LONG, "json"))
    assert [item["start"] for item in found["characters"]] == [1.3, 40.3]
    assert found["segments"] == [
        {"start": 1.0, "end": 1.85, "transcript": "你", "confidence": 0.5},
        {"start": 40.0, "end": 40.85, "transcript": "好", "confidence": 0.5},
    ]


def test_json_of_a_long_recording_without_speech():
    found = json.loads(captions.render(captions.Transcript("a.wav", [], is_cut=True), "json"))
    texts, scores = ("transcript", "pinyin", "greedy_pinyin"), ("acoustic_score", "language_score")
    assert found == {
        **{"file": "a.wav", "status": "ok", "confidence": 0.0, "characters": [], "segments": []},
        **{**dict.fromkeys(texts, ""), **dict.fromkeys(scores, 0.0)},
        "n_best": [{"transcript": "", "score": 0.0}],
    }


def test_text_and_captions():
    assert captions.render(LONG, "txt") == "你\n好\n"
    assert captions.render(SHORT, "srt") == captions.to_srt(SHORT.segments)
    assert captions.render(SHORT, "vtt") == captions.to_vtt(SHORT.segments)
