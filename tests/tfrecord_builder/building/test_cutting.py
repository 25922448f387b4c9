"""Long recordings with several utterances are decoded once, and the records stay the same."""

import contextlib
import os

import built_data
import numpy as np
import pytest
import s3_server
import small_corpora
import telephone_files

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, containers, open_recording, segment_reader
from tfrecord_builder.building import builder
from tfrecord_builder.storage import files

SEGMENTS = [(0.0, 0.5), (0.5, 1.25), (2.0, 1.0), (3.5, 2.0), (6.0, None), (30.0, 1.0)]


@pytest.fixture(autouse=True)
def decoded(monkeypatch):
    """A list of the time limits, in seconds, of all decodings by FFmpeg."""
    pytest.importorskip("av")
    limits, decode = [], containers.decode

    def count(file, name, max_seconds, why):
        limits.append(max_seconds)
        return decode(file, name, max_seconds, why)

    monkeypatch.setattr(containers, "decode", count)
    return limits


def make_corpus(directory, content=None, segments=SEGMENTS, **row):
    """Writes one recording of ten seconds, with a different tone in each channel, and a manifest."""
    content = telephone_files.encode("m4a", 10.0) if content is None else content
    directory.mkdir(exist_ok=True)
    (directory / "a").write_bytes(content)
    lines = ["id\taudio\ttext\tsplit\tstart\tduration"]
    for i, (start, seconds) in enumerate(segments):
        lines.append(f"u{i}\ta\t你好\t{'dev' if i == 1 else 'train'}\t{start}\t{seconds or ''}")
    small_corpora.write_text(directory / "manifest.tsv", "\n".join(lines) + "\n")
    return str(directory)


def build(corpus, output_dir, max_rejected=0.9):
    """Builds a data directory; returns {name: sha256} of its files."""
    flags = dict(num_shards=2, max_rejected=max_rejected, speed_perturb_factors=(1.0, 1.1))
    built_data.build(corpus, output_dir, **flags)
    return {name: files.sha256(os.path.join(output_dir, name)) for name in files.list_names(str(output_dir))}


def build_uncut(monkeypatch, corpus, output_dir, **options):
    with monkeypatch.context() as patch:
        patch.setattr(containers, "SLOW", frozenset())
        return build(corpus, output_dir, **options)


@pytest.mark.long
def test_a_container_is_decoded_once_and_the_data_has_the_same_bytes(tmp_path, monkeypatch, decoded):
    corpus = make_corpus(tmp_path / "in")
    expected = build_uncut(monkeypatch, corpus, tmp_path / "uncut")
    assert len(decoded) == 2 * 6 - 1  # u1 is in dev, which has no copies
    decoded.clear()
    assert build(corpus, tmp_path / "cut") == expected
    assert decoded == [36.0]  # u4, which begins at 6 s, could last 30 s
    assert "u5\ttrain\ttruncated audio" in (tmp_path / "cut" / "rejected.tsv").read_text()


@pytest.mark.parametrize("seconds", [None, 3.0])
@pytest.mark.long
def test_a_recording_with_one_utterance_is_not_cut(tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(open_recording, "SharedRecording", None)
    build(make_corpus(tmp_path / "in", segments=[(1.0, seconds)]), tmp_path / "out")


def test_wav_is_not_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(open_recording, "SharedRecording", None)
    wav = audio_files.encode_wav(small_corpora.tone(10.0), 16000)
    build(make_corpus(tmp_path / "in", wav), tmp_path / "out")


def damage(content):
    middle = len(content) // 2
    return content[:middle] + b"\x55" * 50 + content[middle + 50 :]


@pytest.mark.long
@pytest.mark.parametrize(
    "spoil, reason",
    [
        (damage, "unreadable audio"),
        (lambda content: content[: len(content) // 2 + 5], "truncated audio"),
        (lambda content: content[:500], "unreadable audio"),
        (lambda content: b"", "empty audio"),
    ],
)
def test_utterances_before_the_damage_are_used(tmp_path, monkeypatch, decoded, spoil, reason):
    content = spoil(telephone_files.encode("m4a", 10.0, movflags="faststart"))
    segments = [(i, 1.0) for i in range(10)]
    corpus = make_corpus(tmp_path / "in", content, segments)
    options = {"max_rejected": 1.0} if len(content) > 1000 else {}
    try:
        expected = build_uncut(monkeypatch, corpus, tmp_path / "uncut", **options)
    except errors.UserError as error:
        expected = str(error).replace("/uncut/", "/cut/")
    decoded.clear()
    try:
        assert build(corpus, tmp_path / "cut", **options) == expected
        assert len(decoded) < 6
        rejected = (tmp_path / "cut" / "rejected.tsv").read_text()
        assert rejected.count(reason) == 14  # seven utterances (u3 to u9) and their copies
    except errors.UserError as error:
        assert str(error) == expected and reason in expected


@pytest.mark.long
def test_an_mp3_is_read_like_the_wav_that_it_decodes_to(tmp_path):
    mp3 = telephone_files.encode("mp3", 10.0)
    segments = SEGMENTS[:4]
    wav = audio_files.encode_wav(audio_files.read_audio(str(write(tmp_path, mp3)), 16000), 16000, "FLOAT")
    names = ("train-00000-of-00002.tfrecord", "dev-00000-of-00001.tfrecord")
    built = build(make_corpus(tmp_path / "in", mp3, segments), tmp_path / "mp3")
    plain = build(make_corpus(tmp_path / "in", wav, segments), tmp_path / "wav")
    assert [built[name] for name in names] == [plain[name] for name in names]


def write(tmp_path, content):
    (tmp_path / "recording").write_bytes(content)
    return tmp_path / "recording"


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.long
def test_segments_of_a_shared_recording_are_those_of_the_file(tmp_path, channels, decoded):
    path = str(write(tmp_path, telephone_files.encode("m4a", 5.0, channels=channels)))
    segments = [(path, 16000, 30.0, start, 0.5, channels - 1) for start in (4.0, 0.0, 1.5)]
    expected = [audio_files.read_audio(*segment) for segment in segments]
    decoded.clear()
    with open(path, "rb") as file, contextlib.ExitStack() as stack:
        shared = open_recording.SharedRecording(file, stack, 4.5)
        for segment, waveform in zip(segments, expected):
            np.testing.assert_array_equal(audio_files.read_audio(*segment, shared), waveform)
    assert decoded == [4.5]


def test_segments_that_are_read_together_are_decoded_once(tmp_path, decoded):
    path = str(write(tmp_path, telephone_files.encode("m4a", 5.0)))
    segments = [(4.0, 0.5, None), (0.0, 0.5, None), (9.0, 0.5, None), (1.5, None, 0)]
    expected = [audio_files.read_audio(path, 16000, 30.0, *segments[i]) for i in (0, 1, 3)]
    decoded.clear()
    read = list(segment_reader.read(path, segments, 16000, 30.0))
    assert isinstance(read.pop(2), audio_files.AudioError)  # the segment begins after the end
    for samples, waveform in zip(read, expected):
        np.testing.assert_array_equal(samples, waveform)
    assert len(decoded) == 1


@pytest.mark.long
def test_an_interrupted_build_does_not_decode_again(tmp_path, monkeypatch, decoded):
    corpus = make_corpus(tmp_path / "in")
    expected = build(corpus, tmp_path / "straight")
    with monkeypatch.context() as patch:
        patch.setattr(builder.shard_writer, "make_record", lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            build(corpus, tmp_path / "out")
    assert any(name.endswith(".cut") for name in os.listdir(tmp_path / "out" / ".build" / "labels"))
    decoded.clear()
    assert build(corpus, tmp_path / "out") == expected
    assert decoded == []


def test_a_full_disk_ends_in_one_sentence(tmp_path, monkeypatch):
    def fail(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(containers.ContainerReader, "is_intact", fail)
    with pytest.raises(errors.UserError, match=r"in/a cannot be read \(No space left on device\); check the"):
        build(make_corpus(tmp_path / "in"), tmp_path / "out")


@pytest.mark.long
def test_a_remote_recording_is_downloaded_once(tmp_path, caplog, decoded):
    corpus = make_corpus(tmp_path / "in")
    expected = build(corpus, tmp_path / "out")
    with s3_server.run() as client:
        remote = s3_server.upload(client, corpus, "corpus")
        take = s3_server.watch_requests(caplog)
        remote_files = build(remote, f"{s3_server.BUCKET}/out")
        requests = take()
    assert requests.count("GET /bucket/corpus/a") == 1
    shards = [name for name in expected if name.endswith(".tfrecord")]
    assert [remote_files[name] for name in shards] == [expected[name] for name in shards]
