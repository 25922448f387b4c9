"""The WAV parser returns the same samples as libsndfile, and copes with headers whose sizes are wrong."""

import contextlib
import io
import shutil
import struct
import subprocess
import wave

import numpy as np
import pytest
import soundfile
import tensorflow as tf
import wav_files

from estimator_asr.exporting.saved_model import wav
from estimator_asr_runtime import audio
from tfrecord_builder.audio import audio_files

RATES = range(1000, 1_000_001)
SAMPLES = struct.pack("<4h", 16384, -8192, 4096, -32768)
VALUES = [0.5, -0.25, 0.125, -1.0]


@pytest.fixture(scope="module")
def read():
    """A function that returns a file's sample rate and float32 samples, or None if the file is invalid."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        wavs = tf.compat.v1.placeholder(tf.string, [None])
        header = wav.Header(*(field[0] for field in wav.read_headers(wavs, RATES)))
        samples = tf.cond(header.is_valid, lambda: wav.decode(wavs[0], header), lambda: tf.zeros([0]))
        run = session.make_callable((header.is_valid, header.sample_rate, samples), [wavs])

        def read_one(contents):
            is_valid, rate, found = run([contents])
            return (rate, found) if is_valid else None

        yield read_one


@pytest.fixture(scope="module")
def is_unfinished():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        wavs = tf.compat.v1.placeholder(tf.string, [None])
        yield session.make_callable(wav.read_headers(wavs, RATES).is_unfinished, [wavs])


@pytest.mark.parametrize("num_channels", [1, 2, 3, 6])
@pytest.mark.parametrize(("container", "subtype"), wav_files.KINDS)
def test_samples_equal_those_of_libsndfile(read, container, subtype, num_channels):
    waveform = np.random.default_rng(3).uniform(-1, 1, (1001, num_channels))
    contents = wav_files.encode(waveform, 44100, subtype, container)
    rate, found = read(contents)
    assert rate == 44100
    np.testing.assert_allclose(found, wav_files.decode(contents), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("subtype", "width"), [("ALAW", 6), ("ULAW", 7)])
def test_every_byte_of_g711_is_decoded_as_by_libsndfile(read, subtype, width):
    chunks = wav_files.make_format(width, bits=8), wav_files.make_chunk(b"data", bytes(range(256)))
    contents = wav_files.make_file(*chunks)
    np.testing.assert_array_equal(read(contents)[1], wav_files.decode(contents))


def test_extremes_of_each_width(read):
    for bits, data, want in (
        (8, b"\x00\x80\xff", [-1.0, 0.0, 127 / 128]),
        (16, b"\x00\x80\xff\x7f", [-1.0, 1 - 2**-15]),
        (24, b"\x00\x00\x80\xff\xff\x7f\x01\x00\x00", [-1.0, 1 - 2**-23, 2**-23]),
        (32, b"\x00\x00\x00\x80\x00\x00\x00\x40", [-1.0, 0.5]),
        (12, b"\x00\x80\xf0\x7f", [-1.0, 2047 / 2048]),  # the upper twelve of 16 bits
    ):
        header = wav_files.make_format(bits=bits, frame_bytes=(bits + 7) // 8)
        contents = wav_files.make_file(header, wav_files.make_chunk(b"data", data))
        assert read(contents)[1].tolist() == want


@pytest.mark.parametrize("num_bytes", [1, 2, 3, 4])
def test_files_of_the_module_wave(read, num_bytes):
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(2)
        writer.setsampwidth(num_bytes)
        writer.setframerate(8000)
        writer.writeframes(bytes(range(8 * num_bytes)))
    rate, found = read(file.getvalue())
    assert (rate, len(found)) == (8000, 4)
    np.testing.assert_allclose(found, wav_files.decode(file.getvalue()), rtol=0, atol=1e-7)


def test_chunks_before_the_samples_are_skipped(read):
    """A byte of padding follows a chunk of odd length."""
    before = [wav_files.make_chunk(b"bext", b"x" * 603), wav_files.make_chunk(b"JUNK", b"")]
    software = wav_files.make_chunk(b"LIST", b"INFOISFT\x05\0\0\0Lavf\0")
    between = [wav_files.make_format(), software, wav_files.make_chunk(b"fact", b"1234")]
    after = [wav_files.make_chunk(b"data", SAMPLES), wav_files.make_chunk(b"LIST", b"INFO")]
    contents = wav_files.make_file(*before, *between, *after)
    assert read(contents)[1].tolist() == VALUES == wav_files.decode(contents).tolist()


@pytest.mark.parametrize("data_size", [0, wav_files.UNKNOWN, 0x7FFFF000, 9])
@pytest.mark.parametrize("file_size", [0, wav_files.UNKNOWN, 36])
def test_a_file_of_unknown_length_is_read_to_its_end(read, data_size, file_size):
    chunks = wav_files.make_format(), wav_files.make_chunk(b"data", SAMPLES, data_size)
    assert read(wav_files.make_file(*chunks, size=file_size))[1].tolist() == VALUES


def test_a_file_without_samples_is_valid_and_later_chunks_are_not_read_as_samples(read):
    empty = [wav_files.make_format(), wav_files.make_chunk(b"data", b"")]
    assert read(wav_files.make_file(*empty))[1].tolist() == []
    assert read(wav_files.make_file(*empty, wav_files.make_chunk(b"LIST", b"INFO")))[1].tolist() == []


def test_samples_after_a_header_of_0_samples_are_read(read, is_unfinished):
    """tests/tfrecord_builder/audio/test_unfinished_wav.py expects the same from libsndfile."""
    format, empty = wav_files.make_format(), wav_files.make_chunk(b"data", b"")
    large = wav_files.make_chunk(b"ds64", struct.pack("<QQQI", 0, 0, 0, 0))
    unknown = wav_files.make_chunk(b"data", SAMPLES, wav_files.UNKNOWN)
    starts = (b"", bytes(16), b"LIST" + bytes(4), b"data\x04\0\0\0", b"LIST\xff\xff\xff\xff")
    files = [wav_files.make_file(format, empty + start + SAMPLES) for start in starts]
    files.append(wav_files.make_file(large, format, unknown, size=wav_files.UNKNOWN, kind=b"RF64"))
    assert is_unfinished(files).tolist() == [True] * 6
    assert [read(each)[1][-4:].tolist() for each in files] == [VALUES] * 6
    after = (b"", wav_files.make_chunk(b"LIST", b"INFO"), wav_files.make_chunk(b"id3 ", b"ID3")[:-1])
    files = [wav_files.make_file(format, empty, each, size=0) for each in after]
    files += [wav_files.make_file(format, unknown), wav_files.make_file(format, unknown)[:50], b"RIFF"]
    assert is_unfinished(files).tolist() == [False] * 6
    assert [read(each)[1].tolist() for each in files[:3]] == [[]] * 3


@pytest.mark.parametrize(
    ("frames", "mixed"),
    [
        ([[0.5, -0.5], [-0.25, 0.25]], [0.5, -0.25]),
        ([[0.5, -0.375], [-0.25, 0.1875]], [0.0625, -0.03125]),  # their mean is 18 dB below the louder one
        ([[0.5, -0.4375], [-0.25, 0.21875]], [0.5, -0.25]),  # 24 dB below
        ([[0.125, 0.5, -0.5], [0.125, -0.25, 0.25]], [0.5, -0.25]),
        ([[0.5, 0.0, 0.0, 0.0] * 4, [-0.25, 0.0, 0.0, 0.0] * 4], [0.125, -0.0625]),
        ([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0]),
    ],
)
def test_channels_that_cancel_each_other(read, frames, mixed, tmp_path):
    """All readers then use the first loud channel instead of the mean."""
    contents = wav_files.encode(np.array(frames), subtype="FLOAT")
    assert read(contents)[1].tolist() == mixed
    (tmp_path / "a.wav").write_bytes(contents)
    assert audio_files.read_audio(str(tmp_path / "a.wav"), 16000).tolist() == mixed
    assert np.concatenate(list(audio_files.AudioBlocks(str(tmp_path / "a.wav"), 16000))).tolist() == mixed
    assert audio.read(str(tmp_path / "a.wav"), 16000, 1).waveform.tolist() == mixed


@pytest.mark.parametrize("kind", [b"RF64", b"BW64"])
def test_the_size_of_large_files_is_read_from_ds64(read, kind):
    sizes = wav_files.make_chunk(b"ds64", struct.pack("<QQQI", 100, len(SAMPLES), 4, 0))
    data = wav_files.make_chunk(b"data", SAMPLES, wav_files.UNKNOWN)
    after = wav_files.make_chunk(b"LIST", b"INFO")
    chunks = sizes, wav_files.make_format(), data, after
    assert read(wav_files.make_file(*chunks, size=wav_files.UNKNOWN, kind=kind))[1].tolist() == VALUES


def test_a_truncated_last_frame_is_dropped(read):
    contents = wav_files.encode(np.array([[0.5, 0.25], [-0.5, 0.0], [1.0, 1.0]]))
    for missing in (1, 2, 3, 4):
        assert read(contents[:-missing])[1].tolist() == [0.375, -0.25]


def test_an_incomplete_extensible_format_is_invalid(read):
    contents = wav_files.encode(np.zeros(9), container="WAVEX")
    start = contents.index(b"fmt ")
    assert struct.unpack_from("<IH", contents, start + 4) == (40, 0xFFFE)
    assert read(contents)[1].tolist() == [0.0] * 9
    short = contents[: start + 4] + struct.pack("<I", 18) + contents[start + 8 : start + 26]
    assert read(short + wav_files.make_chunk(b"data", SAMPLES)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"channels": 0},
        {"channels": 0, "frame_bytes": 2},
        {"frame_bytes": 0},
        {"frame_bytes": 3},
        {"channels": 65535, "frame_bytes": 65534},
        {"rate": 0},
        {"rate": 999},
        {"rate": 1_000_001},
        {"rate": 2**31},
        {"rate": 2**32 - 1},
        {"bits": 0, "frame_bytes": 0},
        {"bits": 33, "frame_bytes": 5},
        {"bits": 65535, "frame_bytes": 8192},
        {"tag": 2},
        {"tag": 3, "bits": 16},
        {"tag": 6, "bits": 16},
        {"tag": 85},
        {"tag": 65535},
    ],
)
def test_a_format_that_cannot_be_read_is_invalid(read, fields):
    header = wav_files.make_format(**{"bits": 16, **fields})
    assert read(wav_files.make_file(header, wav_files.make_chunk(b"data", SAMPLES))) is None


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"R",
        b"RIFF",
        b"hello, this is not a WAV file at all",
        b"RIFX" + wav_files.encode(np.zeros(9))[4:],
        b"RIFF\xff\xff\xff\xffAVI " + wav_files.encode(np.zeros(9))[12:],
        wav_files.encode(np.zeros(9))[:20],
        wav_files.encode(np.zeros(9))[:43],  # ends within the header of "data"
        wav_files.make_file(wav_files.make_format()),
        wav_files.make_file(wav_files.make_chunk(b"data", SAMPLES)),
        wav_files.make_file(wav_files.make_chunk(b"data", SAMPLES), wav_files.make_format()),
        wav_files.make_file(wav_files.make_chunk(b"fmt ", b"\1\0"), wav_files.make_chunk(b"data", SAMPLES)),
        wav_files.make_file(wav_files.make_chunk(b"LIST", b"", 0xFFFFFFF7), wav_files.make_format()),
        b"\0" * 5000,
        wav_files.make_file(*[wav_files.make_chunk(b"JUNK", b"")] * 9999, wav_files.make_format()),
    ],
)
def test_an_incomplete_header_is_invalid(read, contents):
    assert read(contents) is None


FORMAT, DATA = wav_files.make_format(), wav_files.make_chunk(b"data", SAMPLES)
NEGATIVE = wav_files.make_chunk(b"ds64", struct.pack("<QqQI", 100, -4, 4, 0))
OPEN_DATA = wav_files.make_chunk(b"data", SAMPLES, wav_files.UNKNOWN)


@pytest.mark.parametrize(
    "contents",
    [
        wav_files.make_file(FORMAT, wav_files.make_chunk(b"data", SAMPLES, 0), size=0),
        wav_files.make_file(NEGATIVE, FORMAT, OPEN_DATA, size=wav_files.UNKNOWN, kind=b"RF64"),
        wav_files.make_file(FORMAT, DATA, DATA),
        wav_files.make_file(FORMAT, FORMAT, DATA),
    ],
)
def test_files_that_libsndfile_does_not_read(read, contents):
    """docs/export.md lists these files."""
    assert read(contents)[1].tolist() == VALUES
    with contextlib.suppress(soundfile.LibsndfileError):
        assert wav_files.decode(contents).tolist() == []


@pytest.mark.parametrize(
    "contents",
    [
        wav_files.make_file(wav_files.make_format(frame_bytes=0), DATA),
        wav_files.make_file(wav_files.make_format(bits=24, frame_bytes=4), DATA),
        wav_files.make_file(*[wav_files.make_chunk(b"JUNK", b"")] * 128, FORMAT, DATA),
    ],
)
def test_files_that_only_libsndfile_reads(read, contents):
    """docs/export.md lists these files, and two other kinds: RIFX, tested above, and files with ID3 tags."""
    assert read(contents) is None
    assert len(wav_files.decode(contents)) > 0


@pytest.mark.parametrize("program", ["ffmpeg", "sox"])
def test_files_that_programs_write_into_a_pipe(read, program, tmp_path):
    wav_file = tmp_path / "a.wav"
    waveform = np.random.default_rng(5).uniform(-0.5, 0.5, 5000)
    wav_file.write_bytes(wav_files.encode(waveform))
    arguments = {
        "ffmpeg": ["-v", "error", "-i", str(wav_file), "-f", "wav", "-"],
        "sox": [str(wav_file), "-t", "wav", "-"],
    }[program]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    contents = subprocess.run([program, *arguments], capture_output=True, check=True).stdout
    np.testing.assert_array_equal(read(contents)[1], wav_files.decode(wav_file.read_bytes()))
