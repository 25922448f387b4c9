"""The times of tokens in the windows of a recording; a window that cannot be aligned has no sentences."""

import numpy as np
import pytest
import spoken_frames

from estimator_asr.serving.alignment import forced_alignment, frame_scores, matching, texts


def make_window(first, *syllables):
    """Returns a window of one sentence, which begins at the heard token with the index `first`."""
    sentence = texts.TextSentence((texts.Phrase("", syllables),))
    return [matching.MatchedSentence(sentence, "", first, first + len(syllables))]


@pytest.fixture(scope="module")
def heard():
    """Three segments; the second one was rejected, so it has no frames, and 0 seconds per frame."""
    store = frame_scores.FrameStore(spoken_frames.BLANK + 1)
    parts = [spoken_frames.speak("jin1 tian1", store=store), spoken_frames.speak(store=store, start=5.0)]
    parts[1].result["scores"] = parts[1].result["scores"]._replace(seconds=0.0)
    parts.append(spoken_frames.speak("de5 qi4 hao3 ba5", store=store, start=10.0))
    return forced_alignment.join_segments(parts)


def test_joined_segments_are_one_recording(heard):
    assert heard.tokens == "jin1 tian1 de5 qi4 hao3 ba5".split()
    assert heard.firsts.tolist() == [0, 10, 10, 30]
    assert heard.token_starts == pytest.approx([0, 0.2, 10, 10.2, 10.4, 10.6])
    assert heard.ends[[10, 11, 30]] == pytest.approx([0.4, 10.04, 10.8])


def test_windows_of_any_length_have_the_times_of_their_tokens(heard):
    windows = [make_window(0, "jin1", "tian1"), make_window(2, "de5"), make_window(3, "qi4", "hao3", "ba5")]
    aligned = forced_alignment.align(heard, windows)
    starts = [sentence.starts for (sentence,) in aligned]
    assert np.concatenate(starts) == pytest.approx(heard.token_starts)
    ends = np.concatenate([sentence.ends for (sentence,) in aligned])
    assert ends == pytest.approx(heard.token_starts + 0.08)
    alone = [forced_alignment.align(heard, [window])[0][0] for window in windows]
    for one, (sentence,) in zip(alone, aligned):
        np.testing.assert_array_equal(one.starts, sentence.starts)
        np.testing.assert_allclose(one.scores, sentence.scores, atol=1e-5)


def test_a_window_with_more_tokens_than_frames_is_empty_and_the_others_are_aligned(heard):
    long = [matching.MatchedSentence(texts.TextSentence((texts.Phrase("", ("de5",) * 40),)), "", 2, 6)]
    empty, (sentence,) = forced_alignment.align(heard, [long, make_window(0, "jin1", "tian1")])
    assert empty == [] and sentence.starts == pytest.approx([0, 0.2])
    assert forced_alignment.align(heard, [long]) == [[]]


def test_a_window_does_not_include_minutes_without_tokens():
    """The pause of 700 s has more frames than can be aligned."""
    heard = forced_alignment.join_segments([spoken_frames.speak("jin1 tian1", 700.0, "de5 qi4")])
    windows = [make_window(0, "jin1", "tian1"), make_window(2, "de5", "qi4")]
    (first,), (second,) = forced_alignment.align(heard, windows)
    assert first.starts == pytest.approx([0, 0.2]) and second.starts == pytest.approx([700.4, 700.6])


def test_frames_of_a_range_cross_segments(heard):
    whole = forced_alignment.read_frames(heard, 0, 30)
    np.testing.assert_array_equal(forced_alignment.read_frames(heard, 8, 13), whole[8:13])
    assert whole.shape == (30, spoken_frames.BLANK + 1)
