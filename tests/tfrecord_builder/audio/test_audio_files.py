import contextlib
import errno
import os
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
import soundfile
import telephone_files

from tfrecord_builder.audio import audio_files, audio_stream
from tfrecord_builder.storage import files


def tone(num_samples, sample_rate, hz=440.0, level=0.5):
    return (level * np.sin(2 * np.pi * hz * np.arange(num_samples) / sample_rate)).astype(np.float32)


def test_encode_wav_uses_the_requested_subtype(tmp_path):
    samples = np.float32([0.1, -0.7, 1.5])
    (tmp_path / "float.wav").write_bytes(audio_files.encode_wav(samples, 16000, "FLOAT"))
    assert audio_files.read_audio(str(tmp_path / "float.wav"), 16000).tolist() == samples.tolist()
    (tmp_path / "short.wav").write_bytes(audio_files.encode_wav(samples, 16000))
    assert soundfile.info(str(tmp_path / "short.wav")).subtype == "PCM_16"


@pytest.mark.parametrize(
    "name, kind",
    [(name, "WAV") for name in ("a.wav", "a.raw", "no ending", os.fsdecode("你.wav".encode("gbk")))]
    + [("a.wav", kind) for kind in ("AIFF", "AU", "CAF")],
)
def test_samples_at_the_requested_rate_are_exact_whatever_the_name_and_format(read, tmp_path, name, kind):
    soundfile.write(str(tmp_path / "written"), np.array([0, 16384, -32768], np.int16), 16000, format=kind)
    path = os.path.join(tmp_path, name)
    os.rename(tmp_path / "written", path)
    samples = read(path, 16000)
    assert samples.dtype == np.float32
    np.testing.assert_array_equal(samples, [0.0, 0.5, -1.0])


def test_channels_are_averaged(read, tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, np.array([[0.5, 0.25], [-0.5, 0.5]], np.float32), 16000, subtype="FLOAT")
    np.testing.assert_array_equal(read(path, 16000), np.float32([0.375, 0.0]))


@pytest.mark.parametrize("file_rate", [8000, 44100, 48000])
def test_audio_of_another_rate_is_resampled(read, tmp_path, file_rate):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, tone(file_rate, file_rate), file_rate)
    samples = read(path, 16000)
    assert samples.dtype == np.float32 and samples.shape == (16000,)
    np.testing.assert_allclose(samples[1000:-1000], tone(16000, 16000)[1000:-1000], atol=1e-3)


@pytest.mark.parametrize(
    "suffix, subtype, tolerance",
    [("wav", "PCM_U8", 0.01), ("wav", "PCM_24", 1e-4)]
    + [("flac", None, 1e-4), ("ogg", None, 0.05), ("mp3", None, 0.05)],
)
def test_all_formats_and_sample_widths_are_read(read, tmp_path, suffix, subtype, tolerance):
    path = str(tmp_path / f"a.{suffix}")
    soundfile.write(path, tone(16000, 16000), 16000, subtype)
    samples = read(path, 16000)
    assert samples.shape == (16000,)
    np.testing.assert_allclose(samples[2000:-2000], tone(16000, 16000)[2000:-2000], atol=tolerance)


# Lengths that FFmpeg, other programs, SoX (16 bits) and SoX (24 bits) write into the header of a pipe's WAV.
@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x7FFFEFFF])
def test_wav_of_unknown_length_from_a_pipe_is_read(read, tmp_path, length):
    path = tmp_path / "a.wav"
    soundfile.write(str(path), tone(1000, 16000), 16000)
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = struct.pack("<I", length)  # sizes of the file and of the samples
    path.write_bytes(content)
    assert read(str(path), 16000).shape == (1000,)


def test_flac_of_unknown_length_from_a_pipe_is_read(read, tmp_path):
    path = tmp_path / "a.flac"
    samples = tone(20000, 16000)
    soundfile.write(str(path), samples, 16000)
    path.write_bytes(telephone_files.set_flac_length(path.read_bytes(), 0))
    assert soundfile.info(str(path)).frames == 2**63 - 1
    np.testing.assert_allclose(read(str(path), 16000), samples, atol=1e-4)
    with contextlib.closing(audio_files.AudioBlocks(str(path), 16000)) as blocks:
        assert blocks.seconds is None
    path.write_bytes(path.read_bytes()[:-100])
    message = "a.flac: audio is truncated: the FLAC stream ends within a frame"
    with pytest.raises(audio_files.AudioError, match=message):
        read(str(path), 16000)


@pytest.mark.parametrize(
    "suffix, problem",
    [
        ("wav", "it has 31978 bytes of samples, but its header states 64000"),
        ("flac", "the FLAC stream ends within a frame"),
        ("ogg", "the Ogg stream has no end marker"),
        ("mp3", r"it has \d+ samples, but its header states 32000"),
    ],
)
def test_truncated_file_is_refused(read, tmp_path, suffix, problem):
    path = tmp_path / f"a.{suffix}"
    noise = np.random.RandomState(0).uniform(-0.5, 0.5, 32000).astype(np.float32)
    soundfile.write(str(path), noise, 16000)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    message = f"a.{suffix}: audio is truncated: {problem}; copy"
    with pytest.raises(audio_files.AudioError, match=message) as caught:
        read(str(path), 16000)
    assert caught.value.reason == "truncated audio"


def test_flac_that_is_damaged_in_the_middle_is_not_truncated(read, tmp_path):
    path = tmp_path / "a.flac"
    noise = np.random.RandomState(0).uniform(-0.5, 0.5, 32000).astype(np.float32)
    soundfile.write(str(path), noise, 16000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    path.write_bytes(content)
    message = r"a.flac: the file cannot be read as WAV.* \(.*flac decoder"
    with pytest.raises(audio_files.AudioError, match=message) as caught:
        read(str(path), 16000)
    assert caught.value.reason == "unreadable audio"


@pytest.mark.parametrize(
    "make, message, reason",
    [
        (lambda path: None, "a.wav: audio file does not exist", audio_files.MISSING),
        (lambda path: path.touch(), "a.wav: audio file is empty", audio_files.EMPTY),
        (
            lambda path: path.write_bytes(b"not audio at all\n" * 20),
            r"a.wav: the file cannot be read as WAV, FLAC, .* or MPEG-TS \(Format not",
            audio_files.UNREADABLE,
        ),
        (
            lambda path: soundfile.write(path, np.zeros(0, np.int16), 16000),
            "a.wav: audio is empty or shorter than one sample at 16000 Hz; replace or",
            audio_files.EMPTY,
        ),
        (  # too short to resample
            lambda path: soundfile.write(path, np.ones(1, np.int16), 192000),
            "a.wav: audio is empty or shorter than one sample at 16000 Hz; replace or",
            audio_files.EMPTY,
        ),
        (os.mkdir, r"a.wav: audio file cannot be read \(Is a directory\)$", audio_files.UNREADABLE),
        (os.mkfifo, r"a.wav: audio file cannot be read \(Not a regular file\)$", audio_files.UNREADABLE),
    ],
    ids=["missing", "empty", "text", "no samples", "one sample", "directory", "pipe"],
)
def test_files_without_audio_are_refused(read, tmp_path, make, message, reason):
    make(tmp_path / "a.wav")
    with pytest.raises(audio_files.AudioError, match=message) as caught:
        read(str(tmp_path / "a.wav"), 16000)
    assert caught.value.reason == reason


@pytest.mark.parametrize("rate", [1, 2147483647])
def test_an_implausible_sample_rate_is_refused(read, tmp_path, rate):
    path = tmp_path / "a.wav"
    soundfile.write(str(path), tone(1000, 16000), 16000)
    content = bytearray(path.read_bytes())
    content[24:28] = struct.pack("<I", rate)
    path.write_bytes(content)
    message = f"a.wav: sample rate is {rate} Hz, expected 1000 to 1000000; copy the file again"
    with pytest.raises(audio_files.AudioError, match=message):
        read(str(path), 16000)


def test_audio_longer_than_the_limit_is_refused(tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, tone(44100, 44100), 44100)
    assert audio_files.read_audio(path, 16000, max_seconds=1.0).shape == (16000,)
    with pytest.raises(audio_files.AudioError, match="a.wav: audio is longer than 0.99 s; cut or") as caught:
        audio_files.read_audio(path, 16000, max_seconds=0.99)
    assert caught.value.reason == "longer than --max_seconds"


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    def deny(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    soundfile.write(str(tmp_path / "a.wav"), tone(1000, 16000), 16000)
    monkeypatch.setattr(files, "open", deny, raising=False)
    message = r"a.wav: audio file cannot be read \(Permission denied\)$"
    with pytest.raises(audio_files.AudioError, match=message):
        audio_files.read_audio(str(tmp_path / "a.wav"), 16000)


def test_an_audio_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(audio_files.AudioError("a.wav: has no samples", audio_files.EMPTY)))
    assert (str(error), error.reason) == ("a.wav: has no samples", "empty audio")


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_a_segment_equals_that_part_of_the_file(tmp_path, suffix):
    path = str(tmp_path / f"a.{suffix}")
    soundfile.write(path, np.random.default_rng(0).uniform(-0.3, 0.3, 48000).astype(np.float32), 16000)
    whole = audio_files.read_audio(path, 16000)
    part = audio_files.read_audio(path, 16000, start_seconds=1.25, seconds=0.5)
    np.testing.assert_allclose(part, whole[20000:28000], atol=1e-4)
    assert len(audio_files.read_audio(path, 16000, start_seconds=2.75)) == len(whole) - 44000


def test_a_segment_may_exceed_the_end_by_half_a_second(tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, np.full(16000, 0.1), 16000)
    assert len(audio_files.read_audio(path, 16000, start_seconds=0.5, seconds=0.99)) == 8000
    message = r"audio is truncated: it ends at 1.00 s, but the segment begins at 0.50 s and lasts 1.10 s"
    with pytest.raises(audio_files.AudioError, match=message) as caught:
        audio_files.read_audio(path, 16000, start_seconds=0.5, seconds=1.1)
    assert caught.value.reason == audio_files.TRUNCATED
    with pytest.raises(audio_files.AudioError, match="but the segment begins at 1.00 s; copy"):
        audio_files.read_audio(path, 16000, start_seconds=1.0)


def test_a_segment_longer_than_the_limit_is_refused(tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, np.full(48000, 0.1), 16000)
    with pytest.raises(audio_files.AudioError, match="audio is longer than 1 s"):
        audio_files.read_audio(path, 16000, 1.0, start_seconds=0.5, seconds=1.5)
    assert len(audio_files.read_audio(path, 16000, 1.0, start_seconds=0.5, seconds=1.0)) == 16000


def test_a_segment_without_an_end_is_not_read_past_the_limit(tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, tone(16000 * 100, 16000), 16000)
    tracemalloc.start()
    with pytest.raises(audio_files.AudioError, match="audio is longer than 1 s; cut or remove it"):
        audio_files.read_audio(path, 16000, max_seconds=1.0, start_seconds=0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 16000 * 10


@pytest.mark.parametrize("second", [-1.0, -0.95])
def test_the_first_loud_channel_is_used_if_channels_cancel_out(tmp_path, second):
    tone = 0.5 * np.sin(np.arange(4000) / 5)
    soundfile.write(path := str(tmp_path / "a.wav"), np.stack([tone, second * tone], axis=1), 16000, "FLOAT")
    np.testing.assert_allclose(audio_files.read_audio(path, 16000), tone, atol=1e-6)


def test_one_channel_is_selected(tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, np.stack([np.full(16000, 0.25), np.full(16000, -0.5)], axis=1), 16000)
    assert [audio_files.read_audio(path, 16000, channel=each)[100] for each in (0, 1)] == [0.25, -0.5]
    assert audio_files.read_audio(path, 16000)[100] == -0.125
    with pytest.raises(audio_files.AudioError, match="channel is 2, expected 0 to 1") as caught:
        audio_files.read_audio(path, 16000, channel=2)
    assert caught.value.reason == "no such channel"


@pytest.mark.parametrize("damage", ["bytes in between", "bytes at the end"])
def test_warnings_of_libmpg123_are_not_shown(read, tmp_path, capfd, damage):
    path = tmp_path / "a.mp3"
    soundfile.write(str(path), tone(48000, 16000), 16000)
    content, junk = path.read_bytes(), bytes(range(256)) * 3
    path.write_bytes(content[:3000] + junk + content[3000:] if "between" in damage else content + junk)
    assert read(str(path), 16000).shape == (48000,)
    os.write(2, b"ours")
    assert capfd.readouterr() == ("", "ours")


def test_an_mp3_without_a_complete_frame_is_damaged(read, tmp_path):
    path = tmp_path / "a.mp3"
    soundfile.write(str(path), tone(16000, 16000), 16000)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(audio_files.AudioError, match=r"a.mp3: the file cannot be read .* \(damaged MP3\)"):
        read(str(path), 16000)


def test_standard_error_is_restored_after_a_damaged_mp3(read, tmp_path, capfd):
    path = tmp_path / "a.mp3"
    path.write_bytes(b"ID3" + bytes(100))
    with pytest.raises(audio_files.AudioError, match="the file cannot be read as WAV, FLAC, Ogg, MP3"):
        read(str(path), 16000)
    os.write(2, b"ours")
    assert capfd.readouterr().err == "ours"


def test_a_failed_disk_is_not_damaged_audio(read, tmp_path, monkeypatch):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, tone(1000, 16000), 16000)
    # Every read by libsndfile fails, because the file is opened only for writing.
    monkeypatch.setattr(files, "open_binary", lambda path: open(path, "ab"))
    monkeypatch.setattr(audio_stream, "_quiet_mp3", contextlib.nullcontext)  # reads the file too
    message = r"a.wav cannot be read \(Bad file descriptor\); check the disk or object store, then .* kept.$"
    with pytest.raises(audio_files.AudioError, match=message) as caught:
        read(path, 16000)
    assert caught.value.reason == audio_files.DISK_FAILED


def test_a_disk_that_fails_within_a_file_is_not_truncation(read, tmp_path, monkeypatch):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, tone(16000, 16000), 16000)
    os.truncate(path, 9000)  # libsndfile takes a failed read for the end of the file

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(audio_files.AudioError) as truncated:
        read(path, 16000)
    monkeypatch.setattr(audio_files.os, "read", fail)
    with pytest.raises(audio_files.AudioError) as failed:
        read(path, 16000)
    assert (truncated.value.reason, failed.value.reason) == (audio_files.TRUNCATED, audio_files.DISK_FAILED)


@pytest.mark.parametrize("rate", [16000, 44100])
def test_blocks_join_to_what_read_audio_returns(tmp_path, rate):
    path = str(tmp_path / "a.flac")
    soundfile.write(path, np.stack([tone(rate * 5, rate), tone(rate * 5, rate, 600.0)], axis=1), rate)
    blocks = audio_files.AudioBlocks(path, 16000)
    assert blocks.seconds == 5.0
    found = list(blocks)
    assert max(map(len, found)) <= 1 << 14
    np.testing.assert_array_equal(np.concatenate(found), audio_files.read_audio(path, 16000))


def test_blocks_of_8_khz_may_be_longer_than_a_second(tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, tone(20000, 8000), 8000)
    assert [len(block) for block in audio_files.AudioBlocks(path, 8000)] == [1 << 14, 20000 - (1 << 14)]


@pytest.mark.parametrize("contents", [b"no audio", None])
def test_an_unusable_file_is_closed(tmp_path, contents):
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(100, 100), 100)  # a sample rate of 100 Hz is too low
    if contents:
        path.write_bytes(contents)
    file = open(path, "rb")
    with pytest.raises(audio_files.AudioError):
        audio_files.AudioBlocks(str(path), 16000, file)
    assert file.closed
