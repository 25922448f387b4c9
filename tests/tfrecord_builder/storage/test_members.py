import errno
import os
import pathlib

import numpy as np
import pytest
import small_corpora

from tfrecord_builder.audio import audio_files
from tfrecord_builder.storage import files, members


def test_member_names_are_parsed():
    assert members.parse("/a/b.ark:17") == members.Member("/a/b.ark", 17, None)
    assert members.parse("s3://a/b.tar:512+9") == members.Member("s3://a/b.tar", 512, 9)
    assert [members.parse(name) for name in ("a.wav", "a:b.wav", ":17", "a:", "a:1+")] == [None] * 5
    assert [str(members.parse(name)) for name in ("a:1", "a:1+2")] == ["a:1", "a:1+2"]


def test_a_member_has_size_and_time_of_the_archive_and_can_be_opened(tmp_path):
    path = small_corpora.write_text(tmp_path / "a.tar", "0123456789")
    assert files.exists(f"{path}:3+4") and not files.exists(f"{path}.b:3+4")
    assert files.size_and_time(f"{path}:3+4") == files.size_and_time(path)
    with files.open_binary(f"{path}:3+4") as file:
        assert file.read() == b"3456"
    with files.open_binary(f"{path}:8+4") as file:  # the archive is truncated
        assert file.read() == b"89"
    with pytest.raises(FileNotFoundError):
        files.size_and_time(f"{path}.b:3+4")
    with pytest.raises(FileNotFoundError):
        files.open_binary(f"{path}.b:3+4")


def test_a_file_with_a_colon_in_its_name_is_not_an_archive(tmp_path):
    small_corpora.write_text(tmp_path / "a", "0123456789")
    path = small_corpora.write_text(tmp_path / "a:3", "whole")
    assert files.size_and_time(path)[0] == 5
    with files.open_binary(path) as file:
        assert file.read() == b"whole"


def test_a_wav_member_without_length_is_refused(tmp_path):
    """Programs that write to a pipe do not know the length, so the next utterance would be read too."""
    wav = small_corpora.write_audio(tmp_path / "a.wav", small_corpora.tone(0.1))
    content = bytearray(pathlib.Path(wav).read_bytes())
    content[4:8] = b"\xff\xff\xff\xff"
    path = tmp_path / "a.ark"
    path.write_bytes(b"u1 " + content + b"u2 " + content)
    with pytest.raises(OSError, match="the WAV file in the archive does not state its length") as error:
        files.open_binary(f"{path}:3")
    assert error.value.errno == errno.EINVAL
    message = r"a.ark:0: audio file cannot be read \(no WAV file begins at byte 0 of the archive"
    with pytest.raises(audio_files.AudioError, match=message):
        audio_files.read_audio(f"{path}:0", 16000)


def test_a_member_written_by_kaldiio_is_read(tmp_path):
    flac = b"fLaC and more"
    length = len(flac).to_bytes(8, "little")
    (tmp_path / "a.ark").write_bytes(b"u1 AUDIO\x08" + length + flac + b"u2 AUDIO")
    with files.open_binary(f"{tmp_path}/a.ark:3") as file:
        assert file.read() == flac


def test_a_member_of_a_truncated_archive_is_truncated_audio(tmp_path):
    wav = small_corpora.write_audio(tmp_path / "a.wav", small_corpora.tone(0.5))
    (tmp_path / "a.ark").write_bytes(b"u1 " + pathlib.Path(wav).read_bytes())
    whole = audio_files.read_audio(f"{tmp_path}/a.ark:3", 16000)
    np.testing.assert_array_equal(whole, audio_files.read_audio(wav, 16000))
    os.truncate(tmp_path / "a.ark", 9000)
    with pytest.raises(audio_files.AudioError, match="a.ark:3: audio is truncated") as error:
        audio_files.read_audio(f"{tmp_path}/a.ark:3", 16000)
    assert error.value.reason == audio_files.TRUNCATED
