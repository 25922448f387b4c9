"""Recordings from files, folders and standard input."""

import io
import os
import tempfile
import types

import numpy as np
import pytest
import soundfile
import telephone_files

from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files


def make_wav(path, seconds=1.0, rate=16000):
    waveform = np.float32(0.3) * np.sin(np.arange(int(seconds * rate)), dtype=np.float32)
    soundfile.write(path, waveform, rate, subtype="PCM_16")
    return waveform


def read(recording, rate=16000):
    return np.concatenate(list(recordings.open_blocks(recording, rate)))


def give_standard_input(monkeypatch, contents):
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(contents)))


def test_files_stay_in_order_and_folders_are_sorted(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.wav", "a.FLAC", "._a.wav", "a.txt", "sub/c.opus"):
        (tmp_path / name).write_bytes(b"")
    found = recordings.find(["z.wav", str(tmp_path), "-"])
    assert [recording[:2] for recording in found] == [
        ("z.wav", "z"),
        (f"{tmp_path}/a.FLAC", "a"),
        (f"{tmp_path}/b.wav", "b"),
        (f"{tmp_path}/sub/c.opus", "sub/c"),
        ("-", "stdin"),
    ]


def test_a_folder_with_a_slash_at_its_end(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"")
    assert recordings.find([f"{tmp_path}/"]) == [recordings.RecordingFile(f"{tmp_path}/a.wav", "a")]


def test_a_file_named_twice_or_with_its_folder_is_one_recording(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    for name in ("a.wav", "sub/b.wav"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    found = recordings.find(["sub/b.wav", f"{tmp_path}/sub/b.wav", ".", "./sub/../a.wav"])
    assert [recording[:2] for recording in found] == [("sub/b.wav", "b"), ("./a.wav", "a")]


def test_a_folder_without_audio_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(errors.UserError, match=r"contains no audio files \(names ending in"):
        recordings.find([str(tmp_path)])


def test_standard_input_twice_is_refused():
    message = r"standard input \(-\) is given more than once; pass it only once"
    with pytest.raises(errors.UserError, match=message):
        recordings.find(["-", "-"])


def test_blocks_of_a_file_are_its_samples(tmp_path):
    make_wav(tmp_path / "a.wav", 3.0, 44100)
    found = read(recordings.RecordingFile(str(tmp_path / "a.wav"), "a"))
    np.testing.assert_array_equal(found, audio_files.read_audio(str(tmp_path / "a.wav"), 16000))


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3"])
def test_standard_input_in_any_format(tmp_path, monkeypatch, name):
    soundfile.write(tmp_path / name, np.sin(np.arange(32000) / 9) * 0.3, 16000)
    give_standard_input(monkeypatch, (tmp_path / name).read_bytes())
    found = read(recordings.RecordingFile("-", "stdin"))
    np.testing.assert_array_equal(found, audio_files.read_audio(str(tmp_path / name), 16000))


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFF000])
def test_standard_input_with_a_header_written_to_a_pipe(tmp_path, monkeypatch, length):
    waveform = make_wav(tmp_path / "a.wav")
    contents = bytearray((tmp_path / "a.wav").read_bytes())
    for place in (4, 40):  # where the lengths of the RIFF and data chunks are
        contents[place : place + 4] = length.to_bytes(4, "little")
    give_standard_input(monkeypatch, bytes(contents))
    np.testing.assert_allclose(read(recordings.RecordingFile("-", "stdin")), waveform, atol=1e-4)


def test_empty_standard_input_is_named(monkeypatch):
    give_standard_input(monkeypatch, b"")
    copy = tempfile.TemporaryFile()
    monkeypatch.setattr(recordings.tempfile, "TemporaryFile", lambda: copy)
    with pytest.raises(audio_files.AudioError, match="standard input is empty; pipe a recording into it"):
        recordings.open_blocks(recordings.RecordingFile("-", "stdin"), 16000)
    assert copy.closed


def test_no_disk_space_to_copy_standard_input_is_an_error(monkeypatch):
    def fail(*arguments):
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    give_standard_input(monkeypatch, b"RIFF")
    monkeypatch.setattr(recordings.tempfile, "TemporaryFile", fail)
    with pytest.raises(audio_files.AudioError) as refused:
        recordings.open_blocks(recordings.RecordingFile("-", "stdin"), 16000)
    problem = "No usable temporary directory found in ['/tmp']"
    copied = "standard input cannot be copied to a temporary file"
    assert str(refused.value) == f"{copied} ({problem}); free some disk space"


def test_seconds_of_all_recordings(tmp_path):
    for name, seconds in (("a.wav", 1.0), ("b.wav", 2.5)):
        make_wav(tmp_path / name, seconds)
    found = recordings.find([str(tmp_path)])
    assert recordings.total_seconds(found) == 3.5
    missing = recordings.RecordingFile(os.path.join(tmp_path, "c.wav"), "c")
    assert recordings.total_seconds([*found, missing]) == 3.5
    pipe = recordings.RecordingFile("-", "stdin")
    assert recordings.total_seconds([*found, pipe]) is None  # standard input is not read


def test_closed_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(recordings.sys, "stdin", None)
    with pytest.raises(audio_files.AudioError, match="standard input is closed; pass a file, or pipe audio"):
        recordings.open_blocks(recordings.RecordingFile("-", "stdin"), 16000)


@pytest.mark.parametrize("name", ["a.raw", b"\xff.wav"])
def test_seconds_of_files_with_unusual_names(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    with open(path, "wb") as file:
        file.write(b"no audio")
    assert recordings.total_seconds([recordings.RecordingFile(os.fsdecode(path), "a")]) == 0


def test_recordings_of_telephones(tmp_path, monkeypatch):
    (tmp_path / "a.m4a").write_bytes(telephone_files.encode("m4a"))
    (tmp_path / "b.webm").write_bytes(telephone_files.encode("webm"))
    found = recordings.find([str(tmp_path)])
    assert [recording.name for recording in found] == ["a", "b"]
    assert recordings.total_seconds(found) == pytest.approx(4, abs=0.1)
    give_standard_input(monkeypatch, telephone_files.encode("aac"))
    for recording in [*found, recordings.RecordingFile("-", "stdin")]:
        assert len(read(recording)) == pytest.approx(32000, abs=2400)
