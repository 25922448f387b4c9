"""Files where samples are expected are recognised by their first bytes; samples never are files."""

from __future__ import annotations

import io
import itertools
import wave

import numpy as np
import pytest
import soundfile
import telephone_files

from estimator_asr.transcripts import file_headers
from tfrecord_builder import errors

NOISE = np.random.default_rng(1).normal(0, 0.1, 16000)
NAMES = {
    "WAV": "WAV",
    "RF64": "WAV",
    "WAVEX": "WAV",
    "FLAC": "FLAC",
    "OGG": "Ogg",
    "AIFF": "AIFF",
    "CAF": "CAF",
}
TELEPHONES = {"m4a": "MP4", "3gp": "MP4", "webm": "WebM", "aac": "MP3 or AAC", "amr": "AMR"}


def find(head: bytes) -> str:
    """Returns the format that the sentence names, empty if nothing is refused."""
    try:
        assert file_headers.strip(head, 0, "message", "send samples") == head
    except errors.UserError as error:
        name, rest = str(error).removeprefix("message: begins as ").split(" files do, ")
        assert rest == "expected samples without a header; send samples"
        return name
    return ""


def encode(format, rate=16000):
    file = io.BytesIO()
    soundfile.write(file, NOISE, rate, format=format)
    return file.getvalue()


@pytest.mark.parametrize(("format", "name"), NAMES.items())
def test_what_libsndfile_writes(format, name):
    assert find(encode(format)[:12]) == name


@pytest.mark.parametrize(("kind", "name"), TELEPHONES.items())
def test_what_telephones_and_browsers_record(kind, name):
    assert find(telephone_files.encode(kind)[:3200]) == name


@pytest.mark.parametrize("rate", [8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000])
def test_frames_of_mp3_without_a_tag(rate):
    content = encode("MP3", rate)
    assert content[0] == 0xFF
    assert find(content[:2048]) == "MP3 or AAC"


# ISO 11172-3 and 13818-3, tables of bit rates of layer III in kbit/s.
MPEG_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
MPEG_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
RATES = {0xFB: (44100, 48000, 32000), 0xF3: (22050, 24000, 16000), 0xE3: (11025, 12000, 8000)}


@pytest.mark.parametrize("version", RATES)
def test_every_length_of_a_frame(version):
    for (index, kbps), (number, rate) in itertools.product(
        enumerate(MPEG_1 if version == 0xFB else MPEG_2, 1), enumerate(RATES[version])
    ):
        size = (144_000 if version == 0xFB else 72_000) * kbps // rate
        header = bytes([0xFF, version, index << 4 | number << 2, 0])
        assert find(header + bytes(size - 4) + header) == "MP3 or AAC", (kbps, rate)
        assert find(header + bytes(size - 5) + header) == ""
        padded = bytes([0xFF, version, index << 4 | number << 2 | 2, 0])
        assert find(padded + bytes(size - 3) + header) == "MP3 or AAC"


def make_wav(rate=16000, channels=1, width=2, more=b"") -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((channels, width, rate, 0, "NONE", ""))
        wav.writeframes(SAMPLES)
    content = file.getvalue()
    return content[:36] + more + content[36:]


SAMPLES = bytes(range(24))
UNKNOWN = make_wav().replace(b"\x18\0\0\0\0\1", b"\xff\xff\xff\x7f\0\1")  # as arecord writes into a pipe


@pytest.mark.parametrize(
    "content, rate",
    [
        (make_wav(), 16000),
        (make_wav(8000), 8000),
        (make_wav(more=b"LIST\4\0\0\0data"), 16000),
        (UNKNOWN, 16000),
    ],
)
def test_the_header_of_a_wav_file_with_such_samples_is_left_out(content, rate):
    assert file_headers.strip(content, rate, "message", "") == SAMPLES
    assert file_headers.strip(content[:-24], rate, "message", "") == b""


@pytest.mark.parametrize(
    "content",
    [make_wav(44100), make_wav(channels=2), make_wav(width=1), make_wav(width=4), make_wav()[:30]],
    ids=("rate", "channels", "8 bits", "32 bits", "half a header"),
)
def test_wav_files_with_other_samples(content):
    with pytest.raises(errors.UserError, match="^message: begins as WAV files do, "):
        file_headers.strip(content, 16000, "message", "send samples")


def test_an_mp3_with_a_tag():
    assert find(b"ID3\4\0\0\0\0\0\0" + bytes(100)) == "MP3"


def test_no_constant_is_a_file():
    for value in range(-32768, 32768):
        head = np.full(1600, value, "<i2").tobytes()
        assert find(head) == "", value


@pytest.mark.parametrize("first", [-1, -257, -1025, -1281, -1537, -3073, -3585, -7169, 18770])
@pytest.mark.parametrize("level", [1, 30, 1000, 10000])
def test_samples_that_begin_as_a_frame_does(first, level):
    rng = np.random.default_rng(first & 0xFFFF)
    for _ in range(50):
        samples = np.clip(rng.normal(0, level, 1600), -32768, 32767).astype("<i2")
        samples[0] = first
        assert find(samples.tobytes()) == ""


@pytest.mark.parametrize("length", range(0, 12))
def test_a_few_samples(length):
    assert find(b"\xff\xfb\x90\x64RIFF0000"[:length]) == ""
