"""Tests WAV files whose recorder stopped before it wrote the number of samples into the header."""

import struct

import numpy as np
import pytest
import wav_files

from tfrecord_builder.audio import audio_files, wav_header

SAMPLES = struct.pack("<4h", 16384, -8192, 4096, -32768)
VALUES = [0.5, -0.25, 0.125, -1.0]
FORMAT, EMPTY = wav_files.make_format(), wav_files.make_chunk(b"data", b"")
LARGE = wav_files.make_chunk(b"ds64", struct.pack("<QQQI", 0, 0, 0, 0))


def read_blocks(path):
    blocks = audio_files.AudioBlocks(path, 16000)
    return np.concatenate(list(blocks)), blocks.warning


@pytest.mark.parametrize(
    "contents",
    [
        wav_files.make_file(FORMAT, EMPTY + SAMPLES),  # only the size of the chunk "data" is wrong
        wav_files.make_file(FORMAT, EMPTY + SAMPLES, size=0),
        wav_files.make_file(FORMAT, EMPTY + SAMPLES, size=36),
        wav_files.make_file(FORMAT, EMPTY + SAMPLES, size=wav_files.UNKNOWN),
        wav_files.make_file(wav_files.make_chunk(b"LIST", b"INFO?"), FORMAT, EMPTY + SAMPLES),
        wav_files.make_file(LARGE, FORMAT, EMPTY + SAMPLES, size=wav_files.UNKNOWN, kind=b"RF64"),
        wav_files.make_file(
            LARGE, FORMAT, wav_files.make_chunk(b"data", SAMPLES, wav_files.UNKNOWN), kind=b"RF64"
        ),
    ],
)
def test_unfinished_files_are_read_to_the_end_with_a_warning(tmp_path, contents, caplog):
    path = tmp_path / "a.wav"
    path.write_bytes(contents)
    assert audio_files.read_audio(str(path), 16000).tolist() == VALUES
    sentence = "the header states 0 samples, but the file contains samples; all of them are read"
    assert caplog.messages == [f"{path}: {sentence}"]
    samples, warning = read_blocks(str(path))
    assert (samples.tolist(), warning) == (VALUES, sentence)


@pytest.mark.parametrize(
    "after", [b"", wav_files.make_chunk(b"LIST", b"INFO"), wav_files.make_chunk(b"id3 ", b"ID3")[:-1]]
)
def test_chunks_up_to_the_end_are_not_read_as_samples(tmp_path, after, caplog):
    """In one case, the last chunk lacks its padding byte."""
    (tmp_path / "a.wav").write_bytes(wav_files.make_file(FORMAT, EMPTY, after, size=0))
    with pytest.raises(audio_files.AudioError, match="audio is empty or shorter than one sample at 16000 Hz"):
        audio_files.read_audio(str(tmp_path / "a.wav"), 16000)
    assert not caplog.messages


@pytest.mark.parametrize("start", [bytes(16), b"LIST" + bytes(4), b"data\x04\0\0\0", b"LIST\xff\xff\xff\xff"])
def test_samples_that_look_like_a_chunk_are_read(tmp_path, start):
    (tmp_path / "a.wav").write_bytes(wav_files.make_file(FORMAT, EMPTY + start + SAMPLES))
    found = audio_files.read_audio(str(tmp_path / "a.wav"), 16000)
    assert (len(found), found[-4:].tolist()) == (len(start) // 2 + 4, VALUES)


@pytest.mark.parametrize(("container", "subtype"), wav_files.KINDS)
@pytest.mark.parametrize("num_channels", [1, 2, 3])
def test_an_incomplete_last_frame_is_dropped_in_all_formats(
    tmp_path, container, subtype, num_channels, capfd
):
    whole = wav_files.encode(np.full([1001, num_channels], 0.25), 16000, subtype, container)
    start = whole.index(b"data")
    frame_bytes = (len(whole) - start - 8) // 1001
    contents = bytearray(whole[: start + 8 + 1001 * frame_bytes - 1])
    contents[start + 4 : start + 8] = bytes(4)
    (tmp_path / "a.wav").write_bytes(contents)
    found = audio_files.read_audio(str(tmp_path / "a.wav"), 16000)
    assert len(found) == 1000
    np.testing.assert_allclose(found, 0.25, atol=0.01)
    assert not capfd.readouterr().err.count("Traceback")


def test_other_files_are_not_repaired(tmp_path):
    for contents in (wav_files.encode(np.zeros(9)), b"fLaC" + bytes(99), b"RIFF", b"RIFF\0\0\0\0WAVE"):
        (tmp_path / "a.wav").write_bytes(contents)
        with open(tmp_path / "a.wav", "rb") as file:
            assert wav_header.open_repaired(file) is None
