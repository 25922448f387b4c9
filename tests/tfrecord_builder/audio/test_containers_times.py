"""Gaps between the timestamps of packets become silence."""

import numpy as np
import pytest
import telephone_files

from tfrecord_builder.audio import audio_files

pytest.importorskip("av")


def find_sound(samples):
    """Returns the times in seconds at which sound begins or ends."""
    blocks = samples[: len(samples) // 160 * 160].reshape(-1, 160)  # 10 ms each
    is_loud = np.concatenate([[False], np.sqrt(np.mean(blocks**2, axis=1)) > 0.05, [False]])
    return (np.flatnonzero(is_loud[1:] != is_loud[:-1]) / 100).tolist()


@pytest.mark.parametrize("kind", ["m4a", "mkv", "webm", "ts", "wma"])
def test_audio_that_begins_after_the_video_starts_with_silence(write, kind):
    video = 0.0 if kind == "webm" else 6.0  # timestamps of WebM begin at 0 even without a video
    path = write(telephone_files.encode(kind, 2.0, start=4.0, video_seconds=video))
    samples = audio_files.read_audio(path, 16000)
    assert find_sound(samples) == pytest.approx([4.0, 6.0], abs=0.12)
    blocks = audio_files.AudioBlocks(path, 16000)
    assert blocks.seconds == pytest.approx(6.0, abs=0.1)
    np.testing.assert_array_equal(np.concatenate(list(blocks)), samples)


@pytest.mark.parametrize("kind", ["m4a", "mkv", "webm", "ts"])
@pytest.mark.parametrize("pause", [0.4, 3.0])
def test_a_pause_in_the_recording_becomes_silence(write, kind, pause):
    path = write(telephone_files.encode(kind, 2.0, pause=pause))
    expected = [0.0, 1.0, 1.0 + pause, 2.0 + pause]
    assert find_sound(audio_files.read_audio(path, 16000)) == pytest.approx(expected, abs=0.15)
    part = audio_files.read_audio(path, 16000, start_seconds=0.5, seconds=pause + 1.0)
    assert find_sound(part) == pytest.approx([0.0, 0.5, 0.5 + pause, 1.0 + pause], abs=0.15)


@pytest.mark.parametrize("kind", telephone_files.KINDS)
def test_samples_that_an_encoder_adds_are_not_a_gap(write, kind):
    samples = audio_files.read_audio(write(telephone_files.encode(kind, 1.0)), 16000)
    assert find_sound(samples) == pytest.approx([0.0, 1.0], abs=0.1)


def test_timestamps_that_go_back_begin_another_recording(write):
    content = telephone_files.encode("ts", 2.0, pause=3.0)
    once, twice = (audio_files.read_audio(write(count * content), 16000) for count in (1, 2))
    sound, sound_twice = find_sound(once), find_sound(twice)
    assert sound_twice[:3] == pytest.approx(sound[:3], abs=0.02)
    assert sound_twice[-1] == pytest.approx(sound[-1] + len(once) / 16000, abs=0.2)


@pytest.mark.parametrize("read", [audio_files.read_audio, audio_files.AudioBlocks])
def test_a_gap_of_hours_is_refused(write, read):
    path = write(telephone_files.encode("webm", 2.0, pause=36000.0))
    message = r"a: the recording has a gap of 36000.0 s at 1.0\d s; split the file there$"
    with pytest.raises(audio_files.AudioError, match=message):
        read(path, 16000)
    with pytest.raises(audio_files.AudioError, match="the recording has a gap of 36000.0 s"):
        audio_files.read_audio(path, 16000, max_seconds=30.0)
    assert len(audio_files.read_audio(path, 16000, start_seconds=0.25, seconds=0.5)) == 8000


def test_gaps_count_towards_max_seconds(write):
    path = write(telephone_files.encode("webm", 2.0, pause=3.0))
    assert len(audio_files.read_audio(path, 16000, max_seconds=5.1)) / 16000 == pytest.approx(5.0, abs=0.05)
    with pytest.raises(audio_files.AudioError, match="audio is longer than 4 s; cut or remove it") as caught:
        audio_files.read_audio(path, 16000, max_seconds=4.0)
    assert caught.value.reason == audio_files.TOO_LONG
