"""Which live text settles, and when; loud samples are speech, and the tests make the results."""

import types

import numpy as np
import pytest
import recognition_results

from estimator_asr.exporting.saved_model import statuses
from estimator_asr.serving.transcripts import live

RATE = 16000


def speech(seconds, level=0.5):
    return np.full(round(RATE * seconds), level, np.float32)


def make_live(*audio, **decode):
    info = types.SimpleNamespace(
        frontend=types.SimpleNamespace(sample_rate=RATE),
        acoustic=types.SimpleNamespace(decode=decode),
        chunk_seconds=0.3,
    )
    transcript = live.LiveTranscript(info, is_streaming=True)
    for part in audio:
        transcript.add(part)
    return transcript


def make_result(text, times, confidence=0.95):
    return recognition_results.make(text, times, confidence, has_marks=False)


def hear(transcript, text, *times, confidence=0.95):
    """Takes the next window, and updates the transcript with a result; times are seconds in the recording."""
    window = transcript.take()
    start = window.start / RATE
    return transcript.update(window, make_result(text, [time - start for time in times], confidence))


@pytest.fixture(autouse=True)
def _short_hold(monkeypatch, loud_is_speech):
    monkeypatch.setattr(live, "HOLD_SECONDS", 0.3)


@pytest.mark.parametrize(
    "decode, confidence",
    [
        ({}, 0.9),
        ({"confidence_scale": "1.0", "confidence_offset": "0.0"}, 0.9),
        ({"confidence_scale": "0.6035", "confidence_offset": "5.635"}, 0.99905),
        ({"confidence_scale": "1.0", "confidence_offset": "-2.0"}, 0.9),
        ({"confidence_scale": "0.5", "confidence_offset": "0.0"}, 0.9),
    ],
)
def test_the_minimum_confidence_holds_before_and_after_calibration(decode, confidence):
    """log(0.9 / 0.1) is 2.1972, so the third confidence is 1 / (1 + exp(-0.6035 * 2.1972 - 5.635))."""
    found = live.find_min_confidence(decode)
    assert found >= 0.9 and found == pytest.approx(confidence, abs=1e-5)


def test_characters_settle_when_two_results_agree():
    transcript = make_live(speech(1.0))
    update = hear(transcript, "你号", 0.2, 0.5)
    assert (update.stable, update.partial, update.first) == ("", "你号", 0)
    transcript.add(speech(0.5))
    update = hear(transcript, "你好吗", 0.2, 0.5, 1.3)
    assert (update.stable, update.partial, update.first) == ("你", "好吗", 0)
    transcript.add(speech(0.5))
    update = hear(transcript, "你好吗", 0.2, 0.5, 1.3)
    assert (update.stable, update.partial, update.first) == ("你好吗", "", 1)
    assert [each["character"] for each in update.characters] == ["好", "吗"]
    assert [each["start"] for each in update.characters] == [0.5, 1.3]


def test_a_character_settles_only_when_audio_follows_it():
    transcript = make_live(speech(1.0))
    hear(transcript, "好", 0.9)
    transcript.add(speech(0.15))
    assert transcript.take() is None, "there is not enough new audio for another result"
    transcript.add(speech(0.2))
    assert hear(transcript, "好", 1.1).stable == ""
    transcript.add(speech(0.35))
    assert hear(transcript, "好", 1.1).stable == "好"


def test_a_character_that_the_model_is_unsure_of_settles_at_the_end():
    transcript = make_live(speech(1.0))
    for _ in range(3):
        assert hear(transcript, "你好", 0.2, 0.5, confidence=0.89).stable == ""
        transcript.add(speech(0.5))
    transcript.end()
    assert hear(transcript, "你好", 0.2, 0.5, confidence=0.89).stable == "你好"


def test_a_calibrated_model_needs_a_higher_confidence():
    """1 / (1 + exp(-2.1972 - 4.7)) is 0.99899."""
    transcript = make_live(speech(1.0), confidence_offset="4.7")
    for _ in range(3):
        assert hear(transcript, "你好", 0.2, 0.5, confidence=0.998).stable == ""
        transcript.add(speech(0.5))
    assert hear(transcript, "你好", 0.2, 0.5, confidence=0.999).stable == "你好"
    transcript.add(speech(0.5))
    assert hear(transcript, "你好吗", 0.2, 0.5, 1.2, confidence=0.998).stable == "你好"
    transcript.end()
    assert hear(transcript, "你好吗", 0.2, 0.5, 1.2, confidence=0.998).stable == "你好吗"


def test_characters_after_an_unsure_one_wait_too():
    transcript = make_live(speech(1.0))
    for _ in range(3):
        window = transcript.take()
        result = make_result("你好", [0.2, 0.5])
        result["characters"][0]["confidence"] = 0.5
        assert transcript.update(window, result).stable == ""
        transcript.add(speech(0.5))


def test_a_segment_with_settled_text_is_not_silent():
    transcript = make_live(speech(1.0))
    for _ in range(2):
        hear(transcript, "你好", 0.2, 0.5)
        transcript.add(speech(0.5))
    transcript.end()
    transcript.update(transcript.take(), {**make_result("", []), "status": statuses.SILENT})
    (segment,) = transcript.segments
    assert (segment.result["transcript"], segment.result["status"]) == ("你好", statuses.OK)


def test_settled_text_never_changes():
    transcript = make_live(speech(1.0))
    hear(transcript, "你好", 0.2, 0.5)
    transcript.add(speech(0.5))
    assert hear(transcript, "你好", 0.2, 0.5).stable == "你好"
    transcript.add(speech(0.5))
    update = hear(transcript, "您好吗", 0.2, 0.5, 1.6)
    assert (update.stable, update.partial, update.first) == ("你好", "吗", 2)
    transcript.end()
    update = hear(transcript, "您好吗", 0.2, 0.5, 1.6)
    assert (update.stable, update.partial) == ("你好吗", "")
    (segment,) = transcript.segments
    assert segment.result["transcript"] == "你好吗" and segment.result["pinyin"] == "你1 好1 吗1"
    assert [item["start"] for item in segment.result["characters"]] == [0.2, 0.5, 1.6]


@pytest.mark.parametrize(
    "heard, times, partial",
    [
        ("好吗", (0.4, 1.2), "吗"),
        ("你你好吗", (0.2, 0.3, 0.4, 1.2), "吗"),
        ("你好好吗", (0.2, 0.4, 0.8, 1.2), "好吗"),
        ("你好", (0.2, 0.4), ""),
        ("", (), ""),
    ],
)
def test_new_characters_follow_those_that_are_settled(heard, times, partial):
    """Later results may lack settled characters, repeat them, or be empty."""
    transcript = make_live(speech(1.0))
    for _ in range(2):
        hear(transcript, "你好", 0.2, 0.4)
        transcript.add(speech(0.5))
    update = hear(transcript, heard, *times)
    assert (update.stable, update.partial) == ("你好", partial)


def test_a_pause_ends_a_segment_and_settles_it():
    transcript = make_live(speech(1.0), speech(1.5, 0.0), speech(1.0))
    assert transcript.has_ended and not transcript.is_full
    assert hear(transcript, "你好", 0.2, 0.5).stable == "你好"
    update = hear(transcript, "再见", 2.7, 3.0)
    assert (update.stable, update.partial, update.first) == ("你好", "再见", 2)
    transcript.end()
    assert hear(transcript, "再见", 2.7, 3.0).stable == "你好再见"
    assert transcript.take() is None
    assert [segment.result["transcript"] for segment in transcript.segments] == ["你好", "再见"]
    assert [round(each, 1) for segment in transcript.segments for each in segment[:2]] == [0.0, 1.3, 2.2, 3.5]


def test_audio_without_such_a_pause_is_recognised_as_a_whole():
    audio = np.concatenate([speech(0.5, 0.0), speech(2.0), speech(0.7, 0.0)])
    transcript = make_live(audio[:20000], audio[20000:])
    transcript.end()
    window = transcript.take()
    assert (window.start, window.has_ended) == (0, True)
    np.testing.assert_array_equal(window.waveform, audio)


def test_a_segment_may_be_cut_before_characters_that_have_settled():
    """After 15 s, the segment is cut in its longest pause, at 7 s, before a settled character."""
    transcript = make_live(speech(6.5), speech(0.96, 0.0), speech(3.0))
    for _ in range(2):
        hear(transcript, "一二三", 1.0, 6.0, 8.0)
        transcript.add(speech(0.5))
    transcript.add(speech(5.0))
    assert transcript.has_ended
    update = hear(transcript, "一二", 1.0, 6.0)
    assert (update.stable, update.partial) == ("一二三", "")
    assert transcript.segments[0].result["transcript"] == "一二"
    transcript.end()
    update = hear(transcript, "三四", 8.0, 12.0)
    assert update.stable == "一二三四"
    assert transcript.segments[1].result["transcript"] == "三四"


def test_settled_characters_whose_times_cross_stay_in_order():
    """Different results place the second character before the cut, and the first one after it."""
    transcript = make_live(speech(6.5), speech(0.96, 0.0), speech(3.0))
    for place in (7.2, 7.2, 6.4, 6.4):
        hear(transcript, *(("一甲", 1.0, place) if place > 7 else ("一甲乙", 1.0, place, 6.7)))
        transcript.add(speech(0.5))
    stable = transcript.stable
    assert stable == "一甲乙"
    transcript.add(speech(4.0))
    assert hear(transcript, "一", 1.0).stable == stable
    transcript.end()
    assert hear(transcript, "甲乙丙", 7.2, 7.3, 9.0).stable == "一甲乙丙"
    assert "".join(segment.result["transcript"] for segment in transcript.segments) == "一甲乙丙"


def test_a_missing_character_is_located_by_the_time_of_the_window():
    """Even late in a recording, a later character is not mistaken for the missing one."""
    transcript = make_live(speech(2.0), speech(28.0, 0.0), speech(1.0))
    hear(transcript, "", *())
    for _ in range(2):
        hear(transcript, "你", 30.2)
        transcript.add(speech(0.5))
    update = hear(transcript, "好吗", 30.9, 31.4)
    assert (update.stable, update.partial) == ("你", "好吗")


def test_settled_characters_stay_even_if_later_results_lack_them():
    """The cut is before the settled character, and only silence follows."""
    transcript = make_live(speech(6.5), speech(0.96, 0.0), speech(0.6))
    for _ in range(2):
        hear(transcript, "一二", 1.0, 7.2)
        transcript.add(speech(0.32))
    transcript._ended.append(live.Window(0, speech(7.0), has_ended=True))
    assert hear(transcript, "一", 1.0).stable == "一二"
    transcript._cutter = type(transcript._cutter)(RATE, lambda samples: 0.0)
    transcript._head = None
    transcript.end()
    assert transcript.take() is None
    assert [segment.result["transcript"] for segment in transcript.segments] == ["一二"]


def test_words_are_separated_by_spaces():
    transcript = make_live(speech(1.0))
    for _ in range(2):
        update = hear(transcript, "a b c", 0.2, 0.4, 1.2)
        transcript.add(speech(0.35))
    assert (update.stable, update.partial) == ("a b", " c")
    transcript.add(speech(1.5, 0.0))
    assert hear(transcript, "a b c", 0.2, 0.4, 1.2).stable == "a b c"
    transcript.add(speech(1.0))
    update = hear(transcript, "d", 3.6)
    assert (update.stable, update.partial) == ("a b c", " d")


@pytest.mark.parametrize("seconds", [0.0, 20.0])
def test_silence_has_no_windows(seconds):
    transcript = make_live(speech(seconds, 0.0))
    assert transcript.take() is None
    transcript.end()
    assert transcript.take() is None and transcript.segments == []


def test_a_pause_is_not_recognised_again():
    transcript = make_live(speech(1.0), speech(0.4, 0.0))
    assert len(transcript.take().waveform) / RATE == pytest.approx(1.3, abs=0.05)
    transcript.add(speech(0.4, 0.0))
    assert transcript.take() is None
