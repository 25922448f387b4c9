"""Utterances that are cut from a recording; its frames are synthetic, and each syllable lasts 200 ms."""

import numpy as np
import pytest
import spoken_frames

from estimator_asr.serving.alignment import frame_scores, segments
from estimator_asr.serving.transcripts import captions, recordings
from tfrecord_builder.data import vocabulary

speak = spoken_frames.speak
FIRST, SECOND, THIRD = "今天的天气真好。", "我们去公园吧！", "他说不要。"
SPOKEN = {
    FIRST: "jin1 tian1 de5 tian1 qi4 zhen1 hao3",
    SECOND: "wo3 men5 qu4 gong1 yuan2 ba5",
    THIRD: "ta1 shuo1 bu4 yao4",
}
OTHER = "中国人民银行成立于一九四八年"


def make_rows(tmp_path, text, *found, token_type="syllable"):
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    recording = recordings.RecordingFile("a.wav", "a", str(path))
    result = segments.make_rows(token_type, recording, captions.Transcript("a.wav", found, True))
    assert not result["refusal"] or not result["rows"]
    return result["rows"] or result["refusal"]


def test_sentences_are_utterances_that_begin_and_end_in_pauses(tmp_path):
    rows = make_rows(
        tmp_path, FIRST + SECOND, speak(0.4, SPOKEN[FIRST], 1.0, SPOKEN[SECOND], 0.4, start=10.0002)
    )
    assert [row["text"] for row in rows] == [FIRST, SECOND]
    assert [row["pinyin"] for row in rows] == [SPOKEN[FIRST], SPOKEN[SECOND]]
    assert [row["heard"] for row in rows] == [SPOKEN[FIRST], SPOKEN[SECOND]]
    assert [row["problem"] for row in rows] == ["", ""] and rows[0]["cut"] == "sentence"
    assert all(row["score"] > 0.99 for row in rows)
    (first, end), (second, last) = [(row["start"], row["start"] + row["seconds"]) for row in rows]
    # The first sentence lasts from 10.4 s to 11.68 s; the second one begins at 12.8 s. An utterance includes
    # up to 0.4 s before and 0.6 s after its speech; 65 % of a short pause belong to the utterance before it.
    # Times are rounded to milliseconds.
    assert first == 10.0 and end == pytest.approx(11.68 + 0.6)
    assert second == pytest.approx(12.8 - 0.35 * 1.12) and last == pytest.approx(13.88 + 0.65 * 0.52)


def test_segments_of_a_recording_are_one_text(tmp_path):
    store = frame_scores.FrameStore(spoken_frames.BLANK + 1)
    parts = speak(SPOKEN[FIRST], store=store), speak(SPOKEN[SECOND], start=60.0, store=store)
    rows = make_rows(tmp_path, FIRST + SECOND, *parts)
    assert [row["text"] for row in rows] == [FIRST, SECOND]
    assert rows[1]["start"] == pytest.approx(60.0, abs=0.401)


def test_speech_without_text_and_text_without_speech_are_left_out(tmp_path):
    spoken = speak(SPOKEN[FIRST], 1.0, SPOKEN[THIRD], 1.0, SPOKEN[FIRST])
    rows = make_rows(tmp_path, FIRST + SECOND + FIRST, spoken)
    assert [(row["problem"], row["text"], row["heard"]) for row in rows] == [
        ("", FIRST, SPOKEN[FIRST]),
        ("speech without text", "", SPOKEN[THIRD]),
        ("text without speech", SECOND, ""),
        ("", FIRST, SPOKEN[FIRST]),
    ]
    assert rows[1]["start"] == pytest.approx(2.4) and rows[1]["seconds"] == pytest.approx(0.64)


def test_words_have_the_frames_in_which_their_tokens_are_emitted(tmp_path):
    """A syllable is emitted every 200 ms, for 80 ms; the phrase in brackets is not said."""
    text = "今天的气（我们去）真好。"
    (row,) = make_rows(tmp_path, text, speak(0.4, "jin1 tian1 de5 qi4 zhen1 hao3", 0.4, start=10.0))
    assert [word for word, _ in row["words"]] == ["今", "天", "的", "气（", "真", "好。"]
    tokens = [token for _, tokens in row["words"] for token in tokens]
    assert [token[:3] for token in tokens[:2]] == [["jin1", 10400, 10480], ["tian1", 10600, 10680]]
    assert all(score > 0.99 for *_, score in tokens)


def test_tones_change_as_in_speech_and_the_utterance_is_kept_if_the_model_hears_the_old_tone(tmp_path):
    (row,) = make_rows(tmp_path, "我好的天气真好。", speak(0.4, "wo3 hao3 de5 tian1 qi4 zhen1 hao3", 0.4))
    assert row["pinyin"] == "wo2 hao3 de5 tian1 qi4 zhen1 hao3" and row["problem"] == ""
    assert row["score"] > 0.7


def test_another_syllable_lowers_the_score_and_unwritten_syllables_too(tmp_path):
    changed = SPOKEN[FIRST].replace("hao3", "ba5")
    (row,) = make_rows(tmp_path, FIRST, speak(0.4, changed, 0.4))
    assert row["score"] == pytest.approx(6 / 7, abs=0.001)  # one of 7 syllables is different
    (row,) = make_rows(tmp_path, FIRST, speak(0.4, f"jin1 tian1 bu4 yao4 {SPOKEN[FIRST][11:]}", 0.4))
    assert row["score"] == pytest.approx(6 / 9, abs=0.001)  # 6 of the 9 heard syllables match


def test_a_word_between_sentences_belongs_to_none(tmp_path):
    rows = make_rows(tmp_path, FIRST + SECOND, speak(SPOKEN[FIRST], 0.4, "bu4 yao4", 0.4, SPOKEN[SECOND]))
    assert [row["heard"] for row in rows] == [SPOKEN[FIRST], SPOKEN[SECOND]]
    assert all(row["score"] > 0.99 for row in rows)


def test_a_long_sentence_is_divided_in_its_longest_pause(tmp_path):
    text = "今天的天气真好，我们去公园吧，他说不要不要。"
    parts = SPOKEN[FIRST], 6.0, SPOKEN[SECOND], 7.0, SPOKEN[THIRD] + " bu4 yao4"
    rows = make_rows(tmp_path, text, speak(0.4, *parts, 0.4))
    assert [(row["text"], row["cut"]) for row in rows] == [
        ("今天的天气真好，我们去公园吧，", "phrase"),
        ("他说不要不要。", "sentence"),
    ]


def test_a_short_sentence_is_joined_with_the_one_before_it(tmp_path):
    rows = make_rows(tmp_path, f"{FIRST}{THIRD}", speak(0.4, SPOKEN[FIRST], 0.4, SPOKEN[THIRD], 0.4))
    assert [row["text"] for row in rows] == [FIRST + THIRD]


def test_without_a_pause_to_cut_in_an_utterance_is_too_long(tmp_path):
    text, syllables = "今天" * 10, " ".join(["jin1 tian1"] * 10)
    slow = [part for syllable in syllables.split() for part in (syllable, 0.8)]
    (row,) = make_rows(tmp_path, text, speak(*slow))
    assert row["problem"] == "longer than 15 s, and the text has no mark at which to divide it"


def test_an_utterance_of_nearly_15_seconds_has_shorter_pauses(tmp_path):
    slow = [part for syllable in ["jin1 tian1"] * 5 for part in (*syllable.split()[:1], 1.4, "tian1", 1.4)]
    (row,) = make_rows(tmp_path, "今天" * 5, speak(3.0, *slow, 3.0))
    assert (row["seconds"], row["problem"]) == (15.0, "")


def test_a_sentence_that_is_cut_for_its_length_ends_with_a_phrase(tmp_path):
    rows = make_rows(tmp_path, "今天" * 40, speak(0.4, " ".join(["jin1 tian1"] * 40), 0.4))
    assert [(len(row["text"]), row["cut"]) for row in rows] == [(60, "phrase"), (20, "sentence")]


def test_a_lone_syllable_is_too_short(tmp_path):
    rows = make_rows(tmp_path, f"{FIRST}\n不", speak(SPOKEN[FIRST], "ta1 ta1 ta1 ta1", "bu4"))
    assert rows[-1]["text"] == "不" and rows[-1]["problem"] == "shorter than 1 s"


def test_a_short_sentence_far_from_the_others_stays_alone(tmp_path):
    parts = speak(SPOKEN[FIRST], 3.0, "bu4", 3.0, SPOKEN[SECOND])
    rows = make_rows(tmp_path, f"{FIRST}不。{SECOND}", parts)
    assert [row["text"] for row in rows] == [FIRST, "不。", SECOND]
    assert rows[1]["seconds"] == pytest.approx(0.08 + 0.4 + 0.6)  # the syllable with its pauses


def test_an_utterance_lasts_15_seconds_at_most(tmp_path):
    """The limit includes the pauses around an utterance; each phrase here lasts 7.2 s."""
    text, half = "今天今天今天今天，今天今天今天今天。", ["jin1 tian1", 2.0] * 4
    rows = make_rows(tmp_path, text, speak(3.0, *half, *half, 3.0))
    assert [row["text"] for row in rows] == ["今天今天今天今天，", "今天今天今天今天。"]
    assert all(row["seconds"] <= 15 and not row["problem"] for row in rows)


def test_more_syllables_than_frames_are_reported(tmp_path):
    """Five of eight syllables are heard in five frames."""
    segment = speak("jin1 tian1 jin1 tian1 jin1")
    scores = segment.result["scores"]
    frames = scores.store.read(0, 25)[[0, 5, 10, 15, 20]]
    store = frame_scores.FrameStore(spoken_frames.BLANK + 1)
    store.add(frames)
    segment.result["scores"] = scores._replace(store=store, num_frames=5, places=np.arange(5))
    (row,) = make_rows(tmp_path, "今天今天今天今天", segment)
    assert (row["problem"], row["text"]) == ("too little or too much audio for the text", "今天今天今天今天")
    assert row["heard"] == "jin1 tian1 jin1 tian1 jin1" and row["seconds"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    "text, said, why",
    [
        (OTHER, [SPOKEN[FIRST]], "only 0% of the tokens agree (minimum: 10%)"),
        # The tokens agree well enough, so the message must not say the opposite.
        (
            "，".join(["今天的", *[OTHER] * 3]),
            ["jin1 tian1 de5", SPOKEN[SECOND]],
            "less than 20% of each sentence was heard",
        ),
    ],
)
def test_the_text_of_another_recording_is_refused(tmp_path, text, said, why):
    refusal = make_rows(tmp_path, text, speak(*said))
    advice = "replace it with the text of this recording"
    assert refusal.endswith(f"a.txt does not match the speech: {why}; {advice}")


def test_a_text_of_two_syllables_is_aligned(tmp_path):
    (row,) = make_rows(tmp_path, "今天", speak(1.0, "jin1 tian1", 1.0))
    assert (row["text"], row["problem"]) == ("今天", "")


@pytest.mark.parametrize("token_type, said", [("toneless", "jin tian de qi"), ("character", "今 天 的 气")])
def test_rows_have_the_spoken_pinyin_whatever_the_tokens_of_the_model(tmp_path, token_type, said):
    """The model's tokens replace the syllables in the frames; the phrase in brackets is not said."""
    names = dict(zip("jin1 tian1 de5 qi4".split(), said.split()))
    segment = speak(0.4, "jin1 tian1 de5 tian1 qi4", 0.4)
    scores = segment.result["scores"]
    segment.result["scores"] = scores._replace(
        vocabulary=vocabulary.Vocabulary([names.get(name, name) for name in spoken_frames.VOCABULARY.tokens]),
        tokens=[names[token] for token in scores.tokens],
    )
    (row,) = make_rows(tmp_path, "今天的（我们去）天氣[3]。", segment, token_type=token_type)
    assert (row["pinyin"], row["problem"]) == ("jin1 tian1 de5 tian1 qi4", "") and row["score"] > 0.99


def test_a_recording_without_speech_is_refused(tmp_path):
    refusal = "no speech was found; remove the recording, or replace it with the one that belongs to the text"
    assert make_rows(tmp_path, FIRST) == make_rows(tmp_path, FIRST, speak(1.0)) == refusal
