"""The written text of transcripts, with its characters and their times."""

import json

import numpy as np
import pytest
import recognition_results

from estimator_asr.serving.transcripts import captions, written_text
from estimator_asr_runtime import written_form

FORM = written_form.load()


def make_segment(marked, start=0.0, seconds=None, step=0.25):
    """Returns a segment with a character every `step` seconds, from text in which marks follow characters."""
    result = recognition_results.make(marked, [0.1 + step * i for i in range(len(marked))])
    seconds = seconds or 0.1 + step * len(result["characters"])
    return captions.TranscriptSegment(start, start + seconds, result)


class Punctuate:
    """A fake punctuation model; `mark` maps a window's characters and the index of one to its mark."""

    form = FORM

    def __init__(self, mark):
        self._mark, self.windows = mark, []

    def run(self, batch):
        return {"marks": [self._read(*row) for row in zip(batch["characters"], batch["pauses"])]}

    def _read(self, text, pauses):
        characters = text.decode().split(" ")
        count = len(characters)
        assert pauses.dtype == np.float32 and not any(pauses[count:])
        self.windows.append((characters, [round(float(pause), 3) for pause in pauses[:count]]))
        return [self._mark(characters, place) for place in range(count)]


def read(segment):
    """Returns the pieces of a written segment with their times."""
    return [(item["character"], item["start"], item["end"]) for item in segment.result["characters"]]


@pytest.mark.parametrize(
    "marked, text, pieces",
    [
        ("你好，吗？", "你好，吗？", [("你", 0.1, 0.14), ("好，", 0.35, 0.39), ("吗？", 0.6, 0.64)]),
        ("百分之十二点五，好。", "12.5%，好。", [("12.5%，", 0.1, 1.64), ("好。", 1.85, 1.89)]),
        ("a b好， 好。", "AB好，好。", [("AB", 0.1, 0.39), ("好，", 0.6, 0.64), ("好。", 0.85, 0.89)]),
    ],
)
def test_a_number_or_spelled_word_is_one_piece_with_the_times_of_its_characters(marked, text, pieces):
    written = written_text.write(make_segment(marked), FORM)
    assert (written.result["transcript"], read(written)) == (text, pieces)


def test_a_date_in_a_sentence():
    written = written_text.write(make_segment("在二零二六年十一月见。"), FORM)
    assert written.result["transcript"] == "在2026年11月见。"
    assert [text for text, *_ in read(written)] == ["在", "2026", "年", "11", "月", "见。"]
    assert [start for _, start, _ in read(written)] == [0.1, 0.35, 1.35, 1.6, 2.1, 2.35]


def test_no_space_follows_a_mark():
    """A space may be a character of its own."""
    items = [
        {"character": text, "mark": mark}
        for text, mark in [("hi", "，"), ("yo", ""), ("<space>", ""), ("a", "。"), ("<space>", ""), ("b", "")]
    ]
    assert written_text.mark_characters("hi yo a b", items) == ["hi，", "yo", "", " a。", "", "b"]
    items[3]["mark"] = ""
    assert written_text.mark_characters("hi yo a b", items) == ["hi，", "yo", "", " a", "", " b"]


def test_spaces_between_words_stay():
    """A piece has its text, the indices of its first and last part, and its end in the text with marks."""
    pieces = written_text.list_pieces(["hi", " there，", " 三", "十", "个"], FORM)
    assert pieces == [("hi", 0, 0, 2), (" there，", 1, 1, 9), (" 30", 2, 3, 12), ("个", 4, 4, 13)]


def test_everything_else_of_the_result_stays():
    segment = make_segment("三十个，好。")
    result = written_text.write(segment, FORM).result
    assert {name for name in result if result[name] != segment.result[name]} == {"transcript", "characters"}
    assert segment.result["transcript"] == "三十个好", "the result itself is not changed"


@pytest.mark.parametrize("transcript", ["", "别的"])
def test_a_transcript_without_characters_that_match_it_stays(transcript):
    segment = make_segment("")
    segment.result["transcript"] = transcript
    assert written_text.write(segment, FORM) is segment


def test_a_single_segment_has_its_own_marks():
    punctuate = Punctuate(lambda *_: "！")
    transcript = written_text.add(captions.Transcript("a.wav", [make_segment("你好。")]), punctuate)
    assert transcript.written[0].result["transcript"] == "你好。" and not punctuate.windows


def test_marks_of_segments_are_found_in_their_common_text():
    """0.61 s of silence between the segments, 0.21 s within them, and 0.5 s at the end."""
    segments = [make_segment("你好。"), make_segment("吗。", start=0.9, seconds=0.64)]
    punctuate = Punctuate(lambda characters, place: "？" if characters[place] == "吗" else "")
    transcript = written_text.add(captions.Transcript("a.wav", segments), punctuate)
    assert punctuate.windows == [(["你", "好", "吗"], [0.21, 0.61, 0.0])]
    assert [segment.result["punctuated"] for segment in transcript.segments] == ["你好", "吗？"]
    assert [segment.result["transcript"] for segment in transcript.written] == ["你好", "吗？"]
    assert read(transcript.written[1]) == [("吗？", 0.1, 0.14)]
    assert segments[0].result["punctuated"] == "你好。", "the results themselves are not changed"


def test_segments_without_characters_have_no_marks():
    punctuate = Punctuate(lambda *_: "。")
    transcript = written_text.add(
        captions.Transcript("", [make_segment(""), make_segment("", 3.0)]), punctuate
    )
    assert captions.join_transcripts(transcript.written) == "" and not punctuate.windows


@pytest.mark.parametrize(
    "count, windows", [(128, [128]), (129, [128, 17]), (352, [128] * 3), (2000, [128] * 17 + [96])]
)
def test_long_texts_are_marked_in_windows(count, windows):
    """The mark shows its window and its place there, which is at least 8 characters from an inner edge."""
    segments = [make_segment("好" * (count // 2)), make_segment("好" * (count - count // 2), 1000.0)]
    punctuate = Punctuate(lambda characters, place: f"{len(punctuate.windows)}:{place}")
    found = [
        item["mark"].split(":")
        for segment in written_text.find_marks(segments, punctuate)
        for item in segment.result["characters"]
    ]
    assert [len(characters) for characters, _ in punctuate.windows] == windows
    starts = [112 * (int(window) - 1) for window, _ in found]
    assert [start + int(place) for start, (_, place) in zip(starts, found)] == list(range(count))
    assert all(int(place) >= 8 for start, (_, place) in zip(starts, found) if start)
    assert all(int(place) < 120 for start, (_, place) in zip(starts, found) if start < starts[-1])


def test_every_format_of_a_recording_in_segments():
    segments = [make_segment("三十个"), make_segment("好", 5.0)]
    plain = captions.Transcript("a.wav", segments, is_cut=True)
    marks = {"个": "，", "好": "。"}
    punctuate = Punctuate(lambda characters, place: marks.get(characters[place], ""))
    written = written_text.add(plain, punctuate)
    assert captions.render(written, "tsv") == "a.wav\t30个，好。\t三1 十1 个1 好1\n"
    assert captions.render(written, "txt") == "30个，\n好。\n"
    assert captions.render(written, "srt").split("\n")[2::4] == ["30个，", "好。"]
    content = json.loads(captions.render(written, "json"))
    texts = [content[name] for name in ("transcript", "punctuated", "written")]
    assert texts == ["三十个好", "三十个，好。", "30个，好。"]
    assert [item["character"] for item in content["characters"]] == list("三十个好")
    assert [item["mark"] for item in content["characters"]] == ["", "", "，", "。"]
    assert [(item["transcript"], item["written"]) for item in content["segments"]] == [
        ("三十个", "30个，"),
        ("好", "好。"),
    ]


def test_no_speech_in_any_format():
    written = written_text.add(captions.Transcript("a.wav", [], is_cut=True), Punctuate(None))
    assert captions.render(written, "tsv") == "a.wav\t\t\n"
    content = json.loads(captions.render(written, "json"))
    assert (content["punctuated"], content["written"], content["segments"]) == ("", "", [])


@pytest.mark.parametrize("format", captions.FORMATS)
def test_without_a_punctuation_model_nothing_changes(format):
    segments = [make_segment("三十个"), make_segment("好", 5.0)]
    for segment in segments:
        segment.result.pop("punctuated")
        for item in segment.result["characters"]:
            item.pop("mark")
    transcript = captions.Transcript("a.wav", segments, is_cut=True)
    assert written_text.add(transcript, None) is transcript
    rendered = captions.render(transcript, format)
    assert "三十个" in rendered and not {"punctuated", "written", "mark"} & set(rendered.split('"'))


def test_captions_end_at_sentence_ends_and_never_within_a_number():
    """Each line has room for 18 wide or 42 narrow characters."""
    segment = make_segment("大家都好吗？" + "他说一共有一万两千三百四十五个人来到这里参加会议了" + "。")
    written = written_text.write(segment, FORM)
    lines = captions.to_srt([written]).split("\n")[2::4]
    assert lines[0] == "大家都好吗？" and len(lines) > 2
    assert "".join(lines) == written.result["transcript"]
    assert sum("12345个" in line for line in lines) == 1
