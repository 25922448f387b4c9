"""Suspicious transcripts; the frames of the recordings are synthetic, and each syllable lasts 200 ms."""

import numpy as np
import pytest
import spoken_frames

from estimator_asr.serving.alignment import forced_alignment, frame_scores, suspects
from tfrecord_builder.data import manifest

SAID = "jin1 tian1 de5 tian1 qi4 zhen1 hao3"


def check(text, *parts, pinyin=""):
    return check_all((text, *parts), pinyin=pinyin)[0]


def check_all(*cases, pinyin=""):
    """Returns the results for the cases, each of which is a text and the parts that are said."""
    utterances = [manifest.Utterance("u", "u.wav", "", case[0], pinyin, "train") for case in cases]
    heard = [forced_alignment.join_segments([spoken_frames.speak(*case[1:])]) for case in cases]
    return suspects.check("syllable", utterances, heard)


def hear_doubtfully(share, *parts):
    """Returns what is heard if a fraction of each best token's probability goes to yao4 instead."""
    segment = spoken_frames.speak(*parts)
    scores = segment.result["scores"]
    probs = np.exp(scores.store.read(0, scores.num_frames))
    is_token = probs.argmax(axis=1) < spoken_frames.BLANK
    probs[is_token] = (1 - share) * probs[is_token] + share * np.eye(probs.shape[1])[
        spoken_frames.VOCABULARY.encode(["yao4"])
    ]
    store = frame_scores.FrameStore(probs.shape[1])
    store.add(np.log(probs))
    segment.result["scores"] = scores._replace(store=store)
    return forced_alignment.join_segments([segment])


def test_a_right_transcript_has_no_fault_and_a_score_for_each_token():
    result = check("今天的天气真好。", 0.4, SAID, 0.4)
    assert (result["fault"], result["words"], result["agreement"]) == ("", "", 1.0)
    assert result["score"] == pytest.approx(1.0) and result["heard"] == SAID
    assert result["tokens"] == " ".join(f"{token}:1.00" for token in SAID.split())


def test_the_pinyin_of_a_corpus_comes_before_its_hanzi():
    assert check("今天", 0.4, "jin1 tian1", 0.4, pinyin="jin1 tian1")["score"] == pytest.approx(1.0)
    assert check("今天", 0.4, "jin1 tian1", 0.4, pinyin="qu4 tian1")["tokens"].startswith("qu4:0.00")


@pytest.mark.parametrize(
    "text, fault, words",
    [
        ("今天我们的天气真好", "words left out", "-我 们"),
        ("今天的气真好", "words added", "+tian1"),
        ("今天的天气去好", "other words", "去 > zhen1"),
        ("今天的我们天气去好", "words left out", "-我 们; 去 > zhen1"),
    ],
)
def test_wrong_words(text, fault, words):
    result = check(text, 0.4, SAID, 0.4)
    assert (result["fault"], result["words"]) == (fault, words) and 0.5 < result["score"] < 0.9


def test_syllables_that_sound_alike_are_usual_mistakes():
    """去 qu4 and 气 qi4 have the same initial, 地 di4 and 气 qi4 have the same final, 甜 and 天 have both."""
    texts = "今天的天去真好", "今天的天地真好", "今甜的天气真好", "今天的天我真好"
    assert [check(text, 0.4, SAID, 0.4)["fault"] for text in texts] == ["", "", "", "other words"]


def test_words_that_are_missing_at_the_start_or_end_of_a_recording():
    begin = check("他们今天的天气真好", SAID, 0.4)
    assert (begin["fault"], begin["words"]) == ("cut at the begin", "-他 们")
    end = check("今天的天气真好他们", 0.4, SAID)
    assert (end["fault"], end["words"]) == ("cut at the end", "-他 们")
    for text in ("他们今天的天气真好", "今天的天气真好他们"):
        assert check(text, 0.4, SAID, 0.4)["fault"] == "words left out"


def test_another_sentence_another_language_and_silence():
    cases = ("我们去公园吧", 0.4, SAID), ("the weather", 0.4, SAID), ("我们去公园吧", 1.0), ("。", 1.0)
    other, foreign, silent, empty = check_all(*cases)
    assert other["fault"] == "another sentence" and other["score"] < 0.01 and other["agreement"] == 0
    assert foreign["fault"] == "other language" and other["words"] == ""
    assert silent["fault"] == "silence" and silent["score"] == 0 and silent["heard"] == ""
    assert empty["fault"] == "silence"


def test_what_is_heard_with_doubts_is_no_evidence():
    texts = "我们去公园吧", "今天我们的天气真好", "今天的气真好"
    utterances = [manifest.Utterance("u", "u.wav", "", text, "", "train") for text in texts]
    found = []
    for share in (0.02, 0.3):
        heard = [hear_doubtfully(share, 0.4, SAID, 0.4)] * len(texts)
        found.append([result["fault"] for result in suspects.check("syllable", utterances, heard)])
    assert found == [["another sentence", "words left out", "words added"], ["other language", "", ""]]


def test_hanzi_are_read_with_tone_sandhi():
    result = check("我好", 0.4, "wo3 hao3", 0.4)
    assert result["tokens"].startswith("wo2:0.00 hao3:") and result["fault"] == ""


def test_more_tokens_than_frames():
    result = check("今天" * 20, SAID)
    assert result["fault"] == "another sentence" and result["score"] == 0
    assert check("今天的天气真好" * 2, "jin1 tian1 de5 tian1 qi4 zhen1 hao3 jin1 tian1")["fault"]


def test_a_recording_without_segments_is_silent():
    """If no speech is found in a recording of more than 15 s, the recording has no segments."""
    utterance = manifest.Utterance("u", "u.wav", "", "今天", "", "train")
    (result,) = suspects.check("syllable", [utterance], [forced_alignment.join_segments([])])
    assert (result["fault"], result["score"], result["tokens"]) == ("silence", 0, "jin1:0.00 tian1:0.00")
