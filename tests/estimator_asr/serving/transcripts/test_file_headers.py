"""Audio files are detected by their first bytes where samples are expected; samples are accepted."""

import io
import itertools
import wave

import numpy as np
import pytest
import soundfile
import telephone_files

from estimator_asr.serving.transcripts import file_headers
from tfrecord_builder import errors

NOISE = np.random.default_rng(1).normal(0, 0.1, 16000)
SENTENCE = "message begins like an audio file, but must contain only samples, without a header; send samples"


def take(content: bytes, rate=0, size=1 << 20) -> bytes:
    """Returns the samples from a stream that arrives in messages of `size` bytes."""
    header_filter = file_headers.HeaderFilter(rate, "message", "send samples")
    parts = [content[place : place + size] for place in range(0, len(content), size)]
    return b"".join(map(header_filter.take, parts))


def is_file(content: bytes, size=1 << 20) -> bool:
    try:
        assert take(content, size=size) == content
    except errors.UserError as error:
        assert str(error) == SENTENCE
        return True
    return False


def encode(format, rate=16000):
    file = io.BytesIO()
    soundfile.write(file, NOISE, rate, format=format)
    return file.getvalue()


SIZES = [2, 10, 44, 100, 320, 3200]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "format", ["WAV", "RF64", "WAVEX", "W64", "FLAC", "OGG", "AIFF", "CAF", "AU", "NIST", "MP3"]
)
def test_files_written_by_libsndfile_are_detected(format, size):
    assert is_file(encode(format)[:4096], size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["m4a", "3gp", "webm", "aac", "amr"])
def test_recordings_of_telephones_and_browsers_are_detected(kind, size):
    assert is_file(telephone_files.encode(kind)[:4096], size)


@pytest.mark.parametrize("rate", [8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000])
def test_mp3_without_a_tag_is_detected(rate):
    content = encode("MP3", rate)
    assert content[0] == 0xFF
    assert is_file(content[:4096], 320)


# The bit rates of layer III in kbit/s, from the tables in ISO 11172-3 and 13818-3.
MPEG_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
MPEG_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
RATES = {0xFB: (44100, 48000, 32000), 0xF3: (22050, 24000, 16000), 0xE3: (11025, 12000, 8000)}


@pytest.mark.parametrize("version", RATES)
def test_frames_of_every_length_are_detected(version):
    for (index, kbps), (number, rate) in itertools.product(
        enumerate(MPEG_1 if version == 0xFB else MPEG_2, 1), enumerate(RATES[version])
    ):
        size = (144_000 if version == 0xFB else 72_000) * kbps // rate
        frame = bytes([0xFF, version, index << 4 | number << 2, 0]) + bytes(size - 4)
        padded = bytes([0xFF, version, index << 4 | number << 2 | 2, 0]) + bytes(size - 3)
        assert is_file(frame + padded + frame + padded), (kbps, rate)
        assert not is_file(frame + padded + frame)


def make_wav(rate=16000, channels=1, width=2, more=b"") -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((channels, width, rate, 0, "NONE", ""))
        wav.writeframes(SAMPLES)
    content = file.getvalue()
    return content[:36] + more + content[36:]


def make_extensible() -> bytes:
    """Returns a WAVE_FORMAT_EXTENSIBLE file, which FFmpeg and libsndfile write even for one channel."""
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(SAMPLES, "<i2"), 16000, format="WAVEX")
    return file.getvalue()


SAMPLES = bytes(range(24))
UNKNOWN = make_wav().replace(b"\x18\0\0\0\0\1", b"\xff\xff\xff\x7f\0\1")  # arecord writes this into pipes
ZERO = make_wav().replace(b"\x3c\0\0\0WAVE", b"\0\0\0\0WAVE").replace(b"data\x18", b"data\0")


@pytest.mark.parametrize(
    "content, rate",
    [
        (make_wav(), 16000),
        (make_wav(8000), 8000),
        (make_wav(0x5D30), 0x5D30),  # these bytes are special characters in a regular expression
        (make_wav(more=b"LIST\4\0\0\0date"), 16000),
        (make_extensible(), 16000),
        (UNKNOWN, 16000),
        (ZERO, 16000),
    ],
    ids=("16 kHz", "8 kHz", "23856 Hz", "another chunk", "extensible", "unknown size", "size 0"),
)
def test_the_header_of_a_wav_file_with_matching_samples_is_removed(content, rate):
    assert take(content, rate) == SAMPLES
    assert take(content, rate, len(content) - 24) == SAMPLES  # the header alone, then the samples


@pytest.mark.parametrize(
    "content",
    [
        make_wav(44100),
        make_wav(channels=2),
        make_wav(width=1),
        make_wav(width=4),
        make_wav()[:30],
        make_wav()[:42],
        make_wav()[:36] + b"LIST\xff\xff\0\0" + bytes(100),
    ],
    ids=("rate", "channels", "8 bits", "32 bits", "half a header", "no size", "a chunk beyond the message"),
)
def test_wav_files_with_other_samples_are_detected(content):
    with pytest.raises(errors.UserError, match=SENTENCE):
        take(content, 16000)


@pytest.mark.parametrize("pid", [0, 17])  # FFmpeg begins with the table of programs, or of their names
def test_mpeg_ts_is_detected(pid):
    assert is_file((b"G@" + bytes([pid]) + bytes(185)) * 2, 100)


def test_an_mp3_with_a_tag_is_detected():
    assert is_file(b"ID3\4\0\0\0\0\0\0" + bytes(100))


def test_a_file_after_samples_is_not_detected():
    assert not is_file(bytes(4096) + encode("FLAC"))


def test_constant_samples_are_not_taken_for_a_file():
    for value in range(-32768, 32768):
        head = np.full(2048, value, "<i2").tobytes()
        assert not is_file(head), value


@pytest.mark.parametrize("first", [-1, -257, -1025, -1281, -1537, -3073, -3585, -7169])
@pytest.mark.parametrize("level", [1, 30, 1000, 10000])
def test_samples_that_begin_like_a_frame_are_not_taken_for_a_file(first, level):
    rng = np.random.default_rng(first & 0xFFFF)
    for _ in range(50):
        samples = np.clip(rng.normal(0, level, 2048), -32768, 32767).astype("<i2")
        samples[0] = first
        assert not is_file(samples.tobytes())


@pytest.mark.parametrize("length", range(0, 5))
def test_a_few_samples_are_not_taken_for_a_file(length):
    assert not is_file(b"\xff\xfb\x90\x64"[:length])
