"""MP3, Ogg and FLAC files that libsndfile does not read to the end are read to the end or refused."""

import math
import re

import numpy as np
import pytest
import telephone_files
import wav_files

from tfrecord_builder.audio import audio_files, containers, stream_ends

pytest.importorskip("av")


def read_blocks(path, sample_rate):
    blocks = audio_files.AudioBlocks(path, sample_rate)
    samples = np.concatenate(list(blocks))
    assert blocks.seconds == pytest.approx(len(samples) / sample_rate, abs=0.01)
    return samples


@pytest.fixture(params=[audio_files.read_audio, read_blocks])
def read(request):
    return request.param


KINDS = {"mp3": ("MP3", None), "vorbis": ("OGG", "VORBIS"), "opus": ("OGG", "OPUS"), "flac": ("FLAC", None)}


def encode(kind, seconds, hz):
    """Encodes a tone with libsndfile."""
    container, subtype = KINDS[kind]
    samples = 0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * 16000)) / 16000)
    return wav_files.encode(samples, 16000, subtype, container)


ID3_V1 = b"TAG" + bytes(125)
ID3_V2 = b"ID3\4\0\0\0\0\7\x68" + b"\xff\xfe" * 500  # 1000 bytes
APE_V2 = b"APETAGEX" + bytes(24) + b"Title\0one" + b"APETAGEX" + bytes(24)
LYRICS = b"LYRICSBEGIN" + b"LYR00005words" + b"000018LYRICS200"


def check(samples):
    """Checks that the samples are 1 s at 440 Hz and 0.5 s at 880 Hz."""
    assert len(samples) / 16000 == pytest.approx(1.5, abs=0.15)
    assert telephone_files.loudest_hz(samples[3200:12800]) == pytest.approx(440, abs=2)
    assert telephone_files.loudest_hz(samples[-6400:-1600]) == pytest.approx(880, abs=4)


@pytest.mark.parametrize("kind", ["mp3", "vorbis", "opus"])
def test_joined_files_are_read_to_the_end(read, write, kind):
    check(read(write(encode(kind, 1.0, 440) + encode(kind, 0.5, 880)), 16000))


def test_tags_between_joined_mp3s_are_skipped(read, write):
    first, second = encode("mp3", 1.0, 440), encode("mp3", 0.5, 880)
    check(read(write(first + ID3_V1 + ID3_V2 + second + ID3_V1), 16000))


def interrupted_mp3(other, share=0.5):
    """Returns an MP3 of 3 s at 440 Hz and 3 s at 880 Hz, with other bytes inserted at `share` of its size."""
    tones = [np.sin(2 * np.pi * hz * np.arange(48000) / 16000) for hz in (440, 880)]
    content = wav_files.encode(0.5 * np.concatenate(tones), 16000, None, "MP3")
    middle = round(share * len(content))
    return content[:middle] + other + content[middle:]


@pytest.mark.parametrize("other", [bytes(2000), b"no audio" * 250], ids=["zeros", "text"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_an_mp3_with_other_bytes_between_its_frames_is_read_to_the_end(write, other, share):
    """libmpg123 gives up after 1024 bytes that are not frames."""
    path = write(interrupted_mp3(other, share))
    samples, blocks = audio_files.read_audio(path, 16000), audio_files.AudioBlocks(path, 16000)
    np.testing.assert_allclose(np.concatenate(list(blocks)), samples, atol=0.01)
    assert len(samples) / 16000 == pytest.approx(6.0, abs=0.1)
    ends = [telephone_files.loudest_hz(second) for second in (samples[:16000], samples[-16000:])]
    assert ends == pytest.approx([440, 880], abs=2)


@pytest.mark.parametrize("options", [{"rate": 44100}, {"channels": 2}, {"rate": 22050, "channels": 2}])
def test_joined_mp3s_with_different_rates_or_channels_are_read(read, write, options):
    for first, second in (({}, options), (options, {})):
        content = telephone_files.encode("mp3", 1.0, **first)
        check(read(write(content + telephone_files.encode("mp3", 0.5, hz=880.0, **second)), 16000))


@pytest.mark.parametrize("first, second", [("flac", "flac"), ("vorbis", "opus"), ("opus", "vorbis")])
def test_joined_files_that_ffmpeg_cannot_decode_are_refused(read, write, first, second):
    """FFmpeg would leave out a part where two FLAC streams meet."""
    content = encode(first, 1.0, 440) + encode(second, 0.5, 880)
    problem = "another stream follows the expected end at 1.00 s"
    message = f"a: {problem}; decode each stream and join the results as WAV$"
    with pytest.raises(audio_files.AudioError, match=message):
        read(write(content), 16000)


def test_joined_flac_files_of_unknown_length_are_refused(read, write):
    first = telephone_files.set_flac_length(encode("flac", 1.0, 440), 0)
    message = "a: another stream follows the first part; decode each stream"
    with pytest.raises(audio_files.AudioError, match=message):
        read(write(first + encode("flac", 0.5, 880)), 16000)


@pytest.mark.parametrize(
    "tags",
    [ID3_V1, ID3_V2, APE_V2 + ID3_V1, LYRICS + ID3_V1, bytes(3000)],
    ids=["ID3v1", "ID3v2", "APEv2", "Lyrics3", "zeros"],
)
def test_tags_at_the_end_are_not_audio(read, write, monkeypatch, tags):
    monkeypatch.setattr(containers, "decode", None)  # only libsndfile may read the file
    for kind in ("mp3", "flac") if tags == ID3_V1 else ("mp3",):
        assert len(read(write(encode(kind, 1.0, 440) + tags), 16000)) == 16000


@pytest.mark.parametrize("kind", ["mp3", "flac"])
def test_a_picture_in_a_tag_at_the_end_is_not_audio(read, write, monkeypatch, kind):
    """The bytes of the picture look like MP3 frames."""
    item = b"\xff\xfb\x90\x64" * 500
    tag = b"APETAGEX" + bytes(24) + item + b"APETAGEX" + bytes(4) + (len(item) + 32).to_bytes(4, "little")
    monkeypatch.setattr(containers, "decode", None)
    assert len(read(write(encode(kind, 1.0, 440) + tag + bytes(16) + ID3_V1), 16000)) == 16000


def test_zeros_after_an_mp3_without_a_header_are_ignored(read, write):
    content = telephone_files.encode("mp3", 1.0, write_xing="0", id3v2_version="0")
    assert len(read(write(content + bytes(4000)), 16000)) / 16000 == pytest.approx(1.05, abs=0.08)


@pytest.mark.parametrize("kind", ["vorbis", "opus"])
def test_joined_ogg_files_without_an_end_marker_are_refused(read, write, kind):
    content = encode(kind, 1.0, 440) + encode(kind, 0.5, 880)
    message = "a: audio is truncated: the Ogg stream has no end marker; copy"
    with pytest.raises(audio_files.AudioError, match=message):
        read(write(content[:-500]), 16000)


def test_padding_frames_at_the_end_are_not_audio(read, write, monkeypatch):
    """LAME ends some files with a frame that contains only padding."""
    content = bytearray(encode("mp3", 1.0, 440))
    info = re.search(b"Info|Xing", content).start()
    delay = int.from_bytes(content[info + 141 : info + 144], "big") >> 12
    content[info + 141 : info + 144] = (delay << 12 | 1500).to_bytes(3, "big")
    monkeypatch.setattr(containers, "decode", None)
    assert len(read(write(bytes(content)), 16000)) < 16000


def test_mp3s_without_a_header_are_read(read, write):
    """libsndfile estimates too few or too many samples from the size and the first frame."""
    quiet, loud = (
        telephone_files.encode("mp3", 2.0, level, write_xing="0", id3v2_version="0") for level in (0.0, 0.5)
    )
    for content, seconds in ((quiet + loud, 4.1), (loud + quiet, 4.1), (ID3_V2 * 20 + loud, 2.05)):
        assert len(read(write(content), 16000)) / 16000 == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize("count", [10, 25, 3000])
def test_an_mp3_whose_header_has_a_wrong_number_of_frames_is_read(read, write, count):
    content = encode("mp3", 1.0, 440)
    info = re.search(b"Info|Xing", content).start()
    content = content[: info + 8] + count.to_bytes(4, "big") + content[info + 12 :]
    assert len(read(write(content), 16000)) / 16000 == pytest.approx(1.0, abs=0.08)


NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, 48000)
FLAC = wav_files.encode(NOISE, container="FLAC")


def test_a_flac_longer_than_its_header_says_is_read_to_the_end(read, write):
    samples = read(write(telephone_files.set_flac_length(FLAC, 16000)), 16000)
    np.testing.assert_allclose(samples, NOISE, atol=1e-4)


def test_segments_of_joined_files_are_read(write):
    path = write(encode("vorbis", 1.0, 440) + encode("vorbis", 0.5, 880))
    part = audio_files.read_audio(path, 16000, start_seconds=1.1, seconds=0.3)
    assert (len(part), telephone_files.loudest_hz(part)) == (4800, pytest.approx(880, abs=4))
    part = audio_files.read_audio(path, 16000, start_seconds=0.75)
    assert len(part) == pytest.approx(12000, abs=1000)
    message = "it ends at 1.[45]. s, but the segment begins at 2.00 s"
    with pytest.raises(audio_files.AudioError, match=message):
        audio_files.read_audio(path, 16000, start_seconds=2.0)


def test_a_segment_up_to_the_end_of_a_flac_of_unknown_length(write):
    path = write(telephone_files.set_flac_length(FLAC, 0))
    for max_seconds in (math.inf, 2.0):
        samples = audio_files.read_audio(path, 16000, max_seconds, start_seconds=2.5)
        np.testing.assert_allclose(samples, NOISE[40000:], atol=1e-4)
    message = "it ends before the segment, which begins at 3.50 s;"
    with pytest.raises(audio_files.AudioError, match=message):
        audio_files.read_audio(path, 16000, start_seconds=3.5)


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda: 2 * encode("mp3", 1.0, 440), "more frames follow the expected end at 1.00 s"),
        (lambda: interrupted_mp3(bytes(2000)), "some bytes between or after the MP3 frames are not audio"),
    ],
    ids=["joined", "interrupted"],
)
def test_without_pyav_the_message_says_what_is_wrong(read, write, monkeypatch, tmp_path, make, why):
    (tmp_path / "av.py").write_text("raise ImportError(\"No module named 'av'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    message = rf"a: {why} \(No module named 'av'; run pip install 'estimator-asr\[containers\]'\)$"
    with pytest.raises(audio_files.AudioError, match=message):
        read(write(make()), 16000)


def test_a_pattern_at_the_border_of_two_blocks_is_found_once(write, monkeypatch):
    monkeypatch.setattr(stream_ends, "_BLOCK_BYTES", 10)
    for start in range(25):
        with open(write(bytes(start) + b"OggS\0\2" + bytes(30)), "rb") as file:
            assert len(list(stream_ends._find(file, "OGG", 0))) == 1


@pytest.mark.parametrize("before", [bytes(2000), b"half a frame" * 30], ids=["zeros", "part"])
def test_bytes_before_the_first_mp3_frame_are_skipped(read, write, before):
    content = telephone_files.encode("mp3", 1.0, write_xing="0", id3v2_version="0")
    assert len(read(write(before + content), 16000)) / 16000 == pytest.approx(1.05, abs=0.08)
