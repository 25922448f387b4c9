import dataclasses
import errno
import os

import numpy as np
import pytest
import small_corpora
import small_shards

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, frontend
from tfrecord_builder.audio.augmentation import copies
from tfrecord_builder.building import shard_writer, sharding
from tfrecord_builder.data import manifest, schema
from tfrecord_builder.labels import labelling
from tfrecord_builder.storage import files

RATE = small_corpora.SAMPLE_RATE
LABELS = labelling.Labels("你好", ("ni3", "hao3"), ("你", "好"))


def _settings(**changes):
    fields = dict(frontend=frontend.FrontendConfig(), fbank_dtype="float16", max_seconds=30.0)
    return sharding.RecordSettings(small_corpora.make_vocabularies(LABELS), **{**fields, **changes})


def _item(name, audio, found=LABELS):
    utterance = manifest.Utterance(name, audio, f"speaker-{name}", "", "", "train")
    return sharding.LabelledUtterance(utterance, found, sharding.file_signature(audio))


def _shard(tmp_path, *found):
    (shard_of_all,) = small_shards.write(found, 1, tmp_path)
    return shard_of_all


def _ignore(done, rejected):
    pass


def _writer(tmp_path, **changes):
    return shard_writer.RecordWriter(str(tmp_path), _settings(**changes))


def _write(tmp_path, found, settings, report=_ignore):
    return shard_writer.RecordWriter(str(tmp_path), settings).replace(_shard(tmp_path, *found), report)


def _read(tmp_path, **options):
    serialized = schema.read_shard(str(tmp_path / "train-00000-of-00001.tfrecord"))
    return list(schema.parse_records(serialized, **options))


@pytest.fixture
def tones(tmp_path):
    return [
        small_corpora.write_audio(tmp_path / f"{i}.wav", small_corpora.tone(0.5 + i / 10, 300 + 100 * i))
        for i in range(3)
    ]


def test_record_holds_the_frontend_of_the_recording(tmp_path, tones):
    _write(tmp_path, [_item("u0", tones[0])], _settings())
    (record,) = _read(tmp_path, num_bins=80)
    expected = frontend.extract(audio_files.read_audio(tones[0], 16000), frontend.FrontendConfig()).numpy()
    assert record["fbank"].shape == (48, 80)
    np.testing.assert_allclose(record["fbank"], expected, atol=0.01)  # the rounding error of float16 near 16
    assert record["token_ids"].tolist() == [2, 1]
    assert record["character_ids"].tolist() == [1, 2]
    assert record["pronunciation"] == b"ni3 hao3"
    assert record["transcript"].decode() == "你好"
    assert record["speaker"] == b"speaker-u0"
    assert record["duration_ms"] == 500


def test_classic_spectrogram_in_float32(tmp_path, tones):
    config = frontend.FrontendConfig(frontend="log_spectrogram")
    _write(tmp_path, [_item("u0", tones[0])], _settings(frontend=config, fbank_dtype="float32"))
    (record,) = _read(tmp_path, num_bins=200, fbank_dtype="float32")
    expected = frontend.extract(audio_files.read_audio(tones[0], 16000), config).numpy()
    np.testing.assert_allclose(record["fbank"], expected, atol=1e-4)


def test_text_records_have_no_features(tmp_path):
    item = sharding.LabelledUtterance(
        manifest.Utterance("t1", None, "news", "你好", "ni3 hao3", "train"), LABELS
    )
    statistics = _write(tmp_path, [item], _settings(frontend=None))
    assert _read(tmp_path)[0]["utterance_id"] == b"t1"
    assert (statistics.frame_lengths, statistics.token_lengths, statistics.num_frames) == ({}, {"2": 1}, 0)


def test_statistics(tmp_path, tones):
    silent = small_corpora.write_audio(tmp_path / "silent.wav", np.zeros(8000))
    unknown = labelling.Labels("再好", ("zai4", "hao3"), ("再", "好"))
    listed, reports = [_item("u0", tones[0]), _item("u1", tones[1], unknown)], []
    listed += [_item("u2", silent), _item("u3", tones[0])]
    found = _write(tmp_path, listed, _settings(), lambda *report: reports.append(report))
    assert reports == [(1, 0), (2, 1), (3, 1), (4, 1)]
    assert found.rejected == [["u2", "train", "silent audio", silent]]
    assert (found.num_records, found.duration_ms) == (3, 500 + 600 + 500)
    assert found.speakers == ["speaker-u0", "speaker-u1", "speaker-u3"]
    assert (found.num_tokens, found.unknown_tokens) == (6, 1)
    assert (found.num_characters, found.unknown_characters) == (6, 1)
    assert (found.frame_lengths, found.token_lengths) == ({"48": 2, "58": 1}, {"2": 3})
    frames = np.concatenate([record["fbank"] for record in _read(tmp_path, num_bins=80)]).astype(np.float64)
    assert found.num_frames == len(frames) == 154
    np.testing.assert_allclose(found.feature_sum, frames.sum(axis=0))
    np.testing.assert_allclose(found.feature_square_sum, np.square(frames).sum(axis=0))


def test_finite_samples_with_infinite_features_are_rejected(tmp_path, tones):
    samples = small_corpora.tone(0.5)
    samples[100] = 1e16  # the square of 1e16 * 32768 overflows float32
    loud = small_corpora.write_audio(tmp_path / "loud.wav", samples, subtype="FLOAT")
    found = _write(tmp_path, [_item("u0", tones[0]), _item("u1", loud)], _settings())
    assert found.rejected == [["u1", "train", "features overflow", loud]]
    assert (found.num_records, found.num_frames) == (1, 48)
    assert np.isfinite(found.feature_sum).all()


@pytest.mark.parametrize("features, num_rejected", [("whisper_log_mel", 1), ("waveform", 1), ("log_mel", 0)])
def test_a_copy_longer_than_the_limit_of_the_encoder_is_rejected(tmp_path, features, num_rejected):
    path = small_corpora.write_audio(tmp_path / "long.wav", small_corpora.tone(28.0))
    item = _item("u", path)
    slow = dataclasses.replace(_item("u~speed0.9", path), variant=copies.Variant(speed=0.9))
    found = _write(tmp_path, [item, slow], _settings(frontend=frontend.FrontendConfig(frontend=features)))
    reason = "longer than the encoder's limit of 30 s"
    assert found.rejected == [["u~speed0.9", "train", reason, path]][:num_rejected]


@pytest.mark.parametrize("change", ["replaced", "removed", "added"])
def test_a_recording_that_changes_while_the_build_runs(tmp_path, tones, change):
    late = str(tmp_path / "late.wav")
    planned = _shard(tmp_path, _item("u0", late if change == "added" else tones[0]))
    if change == "removed":
        os.remove(tones[0])
    else:
        small_corpora.write_audio(late if change == "added" else tones[0], small_corpora.tone(0.7))
    with pytest.raises(errors.UserError, match="wav: the recording has changed since the corpus was listed"):
        _writer(tmp_path).replace(planned, _ignore)
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".tfrecord", ".json"))]


def test_a_segment_of_a_recording_is_read(tmp_path, tones):
    whole = audio_files.read_audio(tones[2], 16000)
    utterance = manifest.Utterance("u0", tones[2], "s", "", "", "train", 0.1, 0.5)
    _write(tmp_path, [dataclasses.replace(_item("u0", tones[2]), utterance=utterance)], _settings())
    (record,) = _read(tmp_path, num_bins=80)
    expected = frontend.extract(whole[1600:9600], frontend.FrontendConfig()).numpy()
    np.testing.assert_allclose(record["fbank"], expected, atol=0.01)
    assert record["duration_ms"] == 500


def _read_waveform(path, max_seconds=30.0):
    utterance = manifest.Utterance("u", str(path), "s", "", "", "train")
    return shard_writer.read_waveform(utterance, RATE, max_seconds)


def _reason(path, max_seconds=30.0):
    with pytest.raises(shard_writer.RejectedRecording) as rejected:
        _read_waveform(path, max_seconds)
    return str(rejected.value)


def test_silent_audio_is_rejected(tmp_path):
    quiet = small_corpora.tone(0.5, level=0.0004)
    assert _reason(small_corpora.write_audio(tmp_path / "zeros.wav", np.zeros(8000))) == "silent audio"
    assert _reason(small_corpora.write_audio(tmp_path / "quiet.wav", quiet)) == "silent audio"
    assert len(_read_waveform(small_corpora.write_audio(tmp_path / "heard.wav", 2 * quiet))) == 8000


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite_are_rejected(tmp_path, value):
    samples = small_corpora.tone(0.5)
    samples[100] = value
    path = small_corpora.write_audio(tmp_path / "a.wav", samples, subtype="FLOAT")
    assert _reason(path) == "NaN or Inf samples"


@pytest.mark.long
def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path, tones):
    listed, made = [_item(f"u{i}", path) for i, path in enumerate(tones)], []
    for name, num_workers in (("here", 1), ("there", 2)):
        (tmp_path / name).mkdir()
        shards = small_shards.write(listed, 3, tmp_path / name)
        made.append(small_shards.run_here(shards, _writer(tmp_path / name), "building", num_workers))
    assert made[0] == made[1]
    for shard in shards:
        assert (tmp_path / "here" / shard.file).read_bytes() == (tmp_path / "there" / shard.file).read_bytes()


def _write_after(monkeypatch, directory, path, error):
    """Writes the record of an existing recording, which raises `error` when it is read."""
    planned, open_binary = _shard(directory, _item("u", path)), files.open_binary

    def fail(name):
        if name == path:
            raise error
        return open_binary(name)

    monkeypatch.setattr(files, "open_binary", fail)
    return _writer(directory).write(planned, _ignore)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_failed_disk_of_a_recording_is_not_reported_as_a_full_disk(tmp_path, monkeypatch, tones, number):
    with pytest.raises(errors.UserError, match=rf"^{tones[0]} cannot be read \(the reason\)"):
        _write_after(monkeypatch, tmp_path, tones[0], OSError(number, "the reason"))


def test_a_recording_that_may_not_be_read_is_rejected(tmp_path, monkeypatch, tones):
    error = PermissionError(errno.EACCES, "Permission denied")
    written = _write_after(monkeypatch, tmp_path, tones[0], error)
    assert written.rejected == [["u", "train", "unreadable audio", tones[0]]]


def test_unreadable_items_are_not_reported_as_a_full_disk(tmp_path, tones):
    planned = _shard(tmp_path, _item("u", tones[0]))
    (tmp_path / "train-00000-of-00001.jsonl").unlink()
    message = r"train-00000-of-00001.jsonl cannot be read \(No such file or directory\); check the disk"
    with pytest.raises(errors.UserError, match=message):
        _writer(tmp_path).write(planned, _ignore)


def test_a_failed_object_store_is_reported_with_the_recording(monkeypatch):
    def fail(path, *_):
        raise OSError(errno.EIO, "there is no such bucket", path)

    monkeypatch.setattr(files, "open_binary", fail)
    monkeypatch.setattr(sharding, "file_signature", lambda audio: None)
    with pytest.raises(errors.UserError, match=r"s3://nobody/a.wav cannot be read \(there is no such b"):
        shard_writer.make_record(_item("u", "s3://nobody/a.wav"), _settings())
