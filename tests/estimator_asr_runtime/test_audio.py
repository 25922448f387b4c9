import io
import os

import numpy as np
import pytest
import soundfile

from estimator_asr_runtime import audio, errors, resampling, statuses


def write(path, samples, rate=16000, subtype="PCM_16") -> str:
    soundfile.write(path, samples, rate, subtype)
    return str(path)


def test_channels_are_averaged(tmp_path):
    path = write(tmp_path / "a.wav", np.array([[0.5, 0.25], [-0.5, 0.5]]))
    read = audio.read(path, 16000, 1)
    assert (read.waveform.tolist(), read.status) == ([0.375, 0.0], statuses.OK)


@pytest.mark.parametrize("rate", [8000, 44100, 48000, 15999])
def test_other_sample_rates_equal_those_of_the_export(rate):
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.exporting.saved_model import resampling as graph_resampling

    waveform = np.float32(np.random.default_rng(rate).normal(size=rate // 3) * 0.1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = graph_resampling.resample(tf.constant(waveform), tf.constant(rate, tf.int64), 16000)
        expected = session.run(made)
    np.testing.assert_allclose(resampling.resample(waveform, rate, 16000), expected, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("container", "subtype"), [("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAV", "ULAW"), ("WAV", "ALAW")]
)
def test_wav_files_are_read_as_in_the_export(tmp_path, container, subtype):
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.exporting.saved_model import wav

    noise = np.random.default_rng(1).normal(size=[4000, 2]) * 0.1
    path = write(tmp_path / "a.wav", noise, 22050, subtype)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        contents = (tmp_path / "a.wav").read_bytes()
        waveform, *_ = session.run(wav.decode_batch(tf.constant([contents]), 16000, 10))
    np.testing.assert_allclose(audio.read(path, 16000, 10).waveform, waveform[0], atol=1e-6)


def test_a_file_without_audio_is_malformed_and_a_long_one_is_too_long(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"RIFF of no length")
    assert audio.read(str(tmp_path / "a.wav"), 16000, 1).status == statuses.MALFORMED
    path = write(tmp_path / "b.wav", np.zeros(16001))
    assert audio.read(path, 16000, 1).status == statuses.TOO_LONG
    slow = write(tmp_path / "c.wav", np.zeros(10), rate=900)
    assert audio.read(slow, 16000, 1).status == statuses.MALFORMED


def test_flac_of_unknown_length_whatever_its_name(tmp_path):
    write(tmp_path / "a.flac", np.full(20000, 0.25))
    content = bytearray((tmp_path / "a.flac").read_bytes())
    content[21] &= 0xF0
    content[22:26] = bytes(4)  # the number of samples, 36 bits
    (tmp_path / "a.raw").write_bytes(content)
    read = audio.read(str(tmp_path / "a.raw"), 16000, 2)
    assert (read.status, read.waveform.tolist()) == (statuses.OK, [0.25] * 20000)
    assert audio.read(str(tmp_path / "a.raw"), 16000, 1).status == statuses.TOO_LONG


def encode(kind, num_samples, subtype=None) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, num_samples)
    soundfile.write(file, noise, 16000, subtype, format=kind)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "subtype"), [("MP3", None), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("FLAC", None)]
)
def test_joined_files_are_refused_with_the_end_of_the_first(tmp_path, kind, subtype):
    first, second = encode(kind, 16000, subtype), encode(kind, 8000, subtype)
    (tmp_path / "a").write_bytes(first)
    assert len(audio.read(str(tmp_path / "a"), 16000, 9).waveform) == 16000
    for tag in (b"TAG" + bytes(125), bytes(90)):
        (tmp_path / "a").write_bytes(first + tag)
        assert audio.read(str(tmp_path / "a"), 16000, 9).status == statuses.OK
    (tmp_path / "a").write_bytes(first + second)
    with pytest.raises(errors.UserError) as raised:
        audio.read(str(tmp_path / "a"), 16000, 9)
    assert str(raised.value) == (
        f"{tmp_path}/a ends at 1.00 s, but more audio follows, as if files had been joined; "
        "convert it to 16-bit PCM WAV"
    )


def test_random_bytes_after_an_mp3_are_not_taken_for_audio(tmp_path):
    """A picture in a tag looks like random bytes."""
    picture = np.random.default_rng(0).bytes(60000)
    (tmp_path / "a").write_bytes(encode("MP3", 16000) + picture)
    assert len(audio.read(str(tmp_path / "a"), 16000, 9).waveform) == 16000


@pytest.mark.parametrize("kind", ["MP3", "FLAC"])
def test_audio_beyond_the_length_in_the_header_is_refused(tmp_path, kind):
    content = bytearray(encode(kind, 32000))
    if kind == "MP3":
        info = content.index(b"Xing") if b"Xing" in content else content.index(b"Info")
        content[info + 8 : info + 12] = (20).to_bytes(4, "big")  # number of frames
    else:
        content[22:26] = (8000).to_bytes(4, "big")  # number of samples
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(errors.UserError, match=r"a ends at 0.\d\d s, but more audio follows"):
        audio.read(str(tmp_path / "a"), 16000, 9)


def test_files_longer_than_a_block_and_huge_values(tmp_path):
    noise = np.random.default_rng(1).normal(size=[300000, 2]) * 0.1
    path = write(tmp_path / "a.wav", noise, subtype="FLOAT")
    expected = np.mean(np.float32(noise), axis=1)
    np.testing.assert_array_equal(audio.read(path, 16000, 20).waveform, expected)
    path = write(tmp_path / "b.wav", np.full([8000, 2], 3e38), subtype="FLOAT")
    waveform, status = audio.read(path, 8000, 20)
    assert (status, statuses.check(waveform, 400, 99999)) == (statuses.OK, statuses.NOT_FINITE)


@pytest.mark.parametrize("num_bytes", [16, 17, 4001])
def test_samples_after_a_header_of_0_samples_are_read(tmp_path, num_bytes):
    """The chunk is not padded if its number of bytes is odd."""
    path = write(tmp_path / "a.wav", np.full(4001, 0.25), subtype="PCM_U8")
    content = (tmp_path / "a.wav").read_bytes()[: 44 + num_bytes]
    (tmp_path / "a.wav").write_bytes(content[:40] + bytes(4) + content[44:])
    read = audio.read(path, 16000, 1)
    assert (read.status, read.waveform.tolist()) == (statuses.UNFINISHED, [0.25] * num_bytes)
    (tmp_path / "a.wav").write_bytes(content[:40] + bytes(4) + b"LIST\x04\0\0\0INFO")
    read = audio.read(path, 16000, 1)
    assert (read.status, len(read.waveform)) == (statuses.OK, 0)


def test_a_seek_that_fails_has_no_traceback(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    with audio._File(io.FileIO(tmp_path / "a")) as file:
        assert (file.seek(1), file.seek(-9), file.tell()) == (1, 1, 1)


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.wav")
    with pytest.raises(errors.UserError, match="is not a regular file; pass the path"):
        audio.read(str(tmp_path / "a.wav"), 16000, 1)


def test_a_file_that_is_missing(tmp_path):
    path = str(tmp_path / "none.wav")
    with pytest.raises(errors.UserError) as raised:
        audio.read(path, 16000, 1)
    assert str(raised.value) == f"{path}: No such file or directory; pass the path of an audio file"


@pytest.mark.parametrize(
    ("waveform", "status"),
    [
        (np.ones(400), statuses.OK),
        (np.ones(0), statuses.EMPTY),
        (np.ones(399), statuses.EMPTY),
        (np.ones(1600), statuses.OK),
        (np.ones(1601), statuses.TOO_LONG),
        (np.full(400, 0.0004), statuses.SILENT),
        (np.full(400, 0.0005), statuses.OK),
        (np.full(400, -2e12), statuses.NOT_FINITE),
        (np.array([np.nan, *np.ones(400)]), statuses.NOT_FINITE),
    ],
)
def test_statuses(waveform, status):
    assert statuses.check(np.float32(waveform), 400, 1600) == status


def test_statuses_are_those_of_the_export():
    pytest.importorskip("tensorflow")
    from estimator_asr.exporting.saved_model import statuses as of_export
    from tfrecord_builder.audio import audio_files

    names = ("OK", "MALFORMED", "EMPTY", "SILENT", "NOT_FINITE", "TOO_LONG", "UNFINISHED")
    assert [getattr(of_export, name) for name in names] == list(statuses.SENTENCES)
    assert f"peak below {audio_files.SILENT_PEAK:g} of full scale" in statuses.SENTENCES[statuses.SILENT]
    assert statuses.SENTENCES[statuses.NOT_FINITE] == f"{of_export.NOT_FINITE_PROBLEM}; save it again"
    assert (statuses.SILENT_PEAK, statuses.LOUDEST_PEAK) == (
        np.float32(audio_files.SILENT_PEAK),
        np.float32(of_export.LOUDEST_PEAK),
    )
