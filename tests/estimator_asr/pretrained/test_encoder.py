"""Tests the content of encoded data directories, and errors for data or weights that do not fit."""

import dataclasses
import errno
import filecmp
import os
import shutil

import numpy as np
import pytest
import small_corpora
import small_hubert
import small_whisper

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import splits
from estimator_asr.pretrained import encoder, shard_encoder
from tfrecord_builder import errors, verify
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import builder
from tfrecord_builder.building.engines import dispatch, local_engine
from tfrecord_builder.data import dataset_info, schema
from tfrecord_builder.program import lazy_tensorflow as tf
from tfrecord_builder.storage import files

WHISPER = frontend.FrontendConfig(frontend="whisper_log_mel")
WAVEFORM = frontend.FrontendConfig(frontend="waveform")


def build(directory, features=WHISPER):
    corpus = small_corpora.make_manifest_corpus(directory / "corpus")
    config = builder.BuildConfig(
        corpus_dir=(corpus,), output_dir=str(directory / "data"), num_shards=2, num_workers=1
    )
    builder.build(config, features)
    return config.output_dir


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return small_whisper.write(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def encoded(tmp_path_factory, weights, data):
    path = str(tmp_path_factory.mktemp("encoded") / "out")
    encoder.encode(weights, data, path, (2, 3), num_workers=1, overwrite=False)
    return path


def read(data_dir, split="train"):
    """Returns the records by utterance id."""
    info = dataset_info.DatasetInfo.load(data_dir)
    found = {}
    for path in info.shard_paths(data_dir, split):
        records = schema.parse_records(schema.read_shard(path), info.frontend.num_bins, info.fbank_dtype)
        found.update({each["utterance_id"]: each for each in records})
    return found


def test_features_are_the_frames_and_the_outputs_of_the_reference(data, encoded):
    before, after = read(data), read(encoded)
    assert list(before) == list(after) and len(after) == 6  # also in the same order
    for name, record in after.items():
        fbank = before[name]["fbank"]
        outputs = small_whisper.encode(fbank, small_whisper.make_tensors())
        assert record["num_frames"] == 25 and fbank.shape == (50, 80)
        np.testing.assert_allclose(record["fbank"][:, :160], fbank.reshape(25, 160), atol=1e-3)
        np.testing.assert_allclose(record["fbank"][:, 160:], np.hstack(outputs[1:]), atol=1e-2)


@pytest.mark.long
def test_hubert_reads_samples(tmp_path):
    data = build(tmp_path, WAVEFORM)
    hubert = small_hubert.write(tmp_path / "hubert")
    path = str(tmp_path / "out")
    described = encoder.encode(hubert, data, path, (1, 3), num_workers=1, overwrite=False)
    assert described.frontend.frontend == "waveform" and described.frontend.encoder.encoder.family == "hubert"
    assert described.splits["train"].frame_lengths == {(8000 - 400) // 320 + 1: 6}
    before, after = read(data), read(path)
    for name, record in after.items():
        samples = before[name]["fbank"].reshape(-1)
        outputs = small_hubert.encode(samples, small_hubert.make_tensors())
        assert samples.shape == (8000,) and record["num_frames"] == 24
        log_mel = frontend.log_mel_of(before[name]["fbank"], WAVEFORM)
        np.testing.assert_allclose(record["fbank"][:, :160], log_mel.reshape(24, 160), atol=0.01)
        expected = np.hstack([outputs[0], outputs[2]])
        np.testing.assert_allclose(record["fbank"][:, 160:], expected, atol=4e-3)  # float16, up to 4
    assert verify.verify(data, 1, 1) and verify.verify(path, 0, 1)


def test_all_features_but_the_encoded_ones_are_unchanged(data, encoded):
    for split in ("train", "dev"):
        before, after = read(data, split), read(encoded, split)
        for name, record in after.items():
            for key in record.keys() - {"fbank", "num_frames"}:
                np.testing.assert_array_equal(record[key], before[name][key])


def test_dataset_info_describes_the_outputs(data, encoded):
    before, after = map(dataset_info.DatasetInfo.load, (data, encoded))
    assert after.frontend.encoder.layers == (2, 3)
    assert after.frontend.num_bins == 2 * 80 + 2 * 16
    assert frontend.num_frames(8000, after.frontend) == 25
    assert after.splits["train"].frame_lengths == {25: 6}
    assert after.tokens_sha256 == before.tokens_sha256 and after.num_rejected == before.num_rejected


def overwrite(path, place):
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(b"xx")


def test_verify_accepts_encoded_data_and_finds_damage(encoded, tmp_path):
    assert verify.verify(encoded, 0, 1)
    shard = dataset_info.DatasetInfo.load(encoded).shard_paths(encoded, "dev")[0]
    copied = shutil.copytree(encoded, tmp_path / "copy")
    overwrite(copied / os.path.basename(shard), 100)
    assert not verify.verify(str(copied), 0, 1)


def test_verify_cannot_extract_outputs_again(encoded, capsys):
    assert not verify.verify(encoded, 2, 1)
    assert "--sample: records contain encoder outputs instead of features" in capsys.readouterr().out


@pytest.mark.long
def test_the_number_of_workers_does_not_change_the_output(weights, data, encoded, tmp_path):
    other = str(tmp_path / "out")
    encoder.encode(weights, data, other, (2, 3), num_workers=2, overwrite=False)
    names = sorted(os.listdir(encoded))
    assert sorted(os.listdir(other)) == names
    assert filecmp.cmpfiles(encoded, other, names, shallow=False) == (names, [], [])


@pytest.mark.long
def test_batches_change_no_output_by_more_than_rounding(weights, data, encoded, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_encoder, "_BATCH_FRAMES", 1)
    monkeypatch.setattr(shard_encoder, "_WINDOW_FRAMES", 100)  # two records
    other = str(tmp_path / "out")
    encoder.encode(weights, data, other, (2, 3), num_workers=1, overwrite=False)
    one, two = read(encoded), read(other)
    assert list(one) == list(two)
    for name in one:
        np.testing.assert_allclose(one[name]["fbank"], two[name]["fbank"], atol=1e-2)


def test_an_interrupted_run_continues_with_the_finished_shards(weights, data, encoded, tmp_path, monkeypatch):
    run, other, written = local_engine._run, str(tmp_path / "out"), []

    def stop_after_one(*args):
        yield next(run(*args))
        raise KeyboardInterrupt

    monkeypatch.setattr(local_engine, "_run", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        encoder.encode(weights, data, other, (2, 3), num_workers=1, overwrite=False)
    monkeypatch.setattr(
        local_engine,
        "_run",
        lambda count, task, units, *_: written.extend(units) or run(count, task, units, *_),
    )
    with pytest.raises(errors.UserError, match="a different corpus or different flags.*--overwrite"):
        encoder.encode(weights, data, other, (3,), num_workers=1, overwrite=False)
    encoder.encode(weights, data, other, (2, 3), num_workers=1, overwrite=False)
    assert len(written) == 4 - 1
    assert dataset_info.DatasetInfo.load(other) == dataset_info.DatasetInfo.load(encoded)


def test_the_encoder_is_saved_beside_its_outputs_and_encodes_the_same(data, encoded, tmp_path):
    other = str(tmp_path / "out")
    encoder.encode(encoded, data, other, (2, 3), num_workers=1, overwrite=False)  # --weights=ENCODED
    assert dataset_info.DatasetInfo.load(other) == dataset_info.DatasetInfo.load(encoded)


@pytest.mark.parametrize(
    "features, said",
    [
        (
            frontend.FrontendConfig(),
            "features are log_mel with 80 values per frame, but whisper needs whisper_log_mel with 80; build "
            "the data with --frontend=whisper_log_mel --num_mel_bins=80",
        ),
        (
            frontend.FrontendConfig(frontend="whisper_log_mel", num_mel_bins=128),
            "features are whisper_log_mel with 128 values per frame, but whisper needs whisper_log_mel with "
            "80; build",
        ),
        (
            WAVEFORM,
            "features are waveform with 160 values per frame, but whisper needs whisper_log_mel with 80; ",
        ),
    ],
)
def test_other_features_are_refused(weights, tmp_path, features, said):
    with pytest.raises(errors.UserError, match=said):
        encoder.encode(weights, build(tmp_path, features), str(tmp_path / "out"), (), 1, False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("which, longest", [("data", 3000), ("encoded", 1500)])
def test_utterances_longer_than_whisper_can_read_are_refused(request, which, longest):
    data_dir = request.getfixturevalue(which)
    info = dataset_info.DatasetInfo.load(data_dir)

    def with_length(length):
        split = dataclasses.replace(info.splits["train"], frame_lengths={20: 5, length: 3})
        return dataclasses.replace(info, splits={"train": split})

    splits.check_lengths(data_dir, with_length(longest), "train")
    said = (
        f"^{data_dir}: 3 utterances in split train are longer than 30 s, the maximum for encoders with "
        "--frontend=whisper_log_mel; build the data again$"
    )
    changed = with_length(longest + 1)
    with pytest.raises(errors.UserError, match=said):
        splits.read_split([changed], [data_dir], "train", task_spec.ACOUSTIC)
    with pytest.raises(errors.UserError, match=said):
        encoder._list_shards(changed, data_dir)


def test_the_output_directory_may_not_be_the_data_directory(weights, data):
    with pytest.raises(errors.UserError, match="encode: --output_dir=.* is the same directory as --data_dir"):
        encoder.encode(weights, data, f"{data}/", (), 1, True)


@pytest.fixture
def text(tmp_path):
    corpus = small_corpora.make_text_corpus(tmp_path / "text")
    config = builder.BuildConfig(
        corpus="text", corpus_dir=(corpus,), output_dir=str(tmp_path / "data"), num_workers=1
    )
    builder.build(config, frontend.FrontendConfig())
    return config.output_dir


@pytest.mark.parametrize(
    "source, layers, said",
    [
        ("text", (), "contains text, but encode needs audio features; build the"),
        ("encoded", (), "contains data that are already encoded, but encode needs audio features; build the"),
        ("data", (4,), "--layers is 4, expected increasing block numbers from 1 to 3"),
        ("data", (2, 1), "--layers is 2,1, expected increasing block numbers from 1 to 3"),
        ("data", (1, 1), "--layers is 1,1, expected increasing block numbers from 1 to 3"),
    ],
)
def test_unusable_data_and_layers_are_refused(request, weights, tmp_path, source, layers, said):
    with pytest.raises(errors.UserError, match=said):
        encoder.encode(weights, request.getfixturevalue(source), str(tmp_path / "out"), layers, 1, False)


def test_a_damaged_shard_is_named(weights, data, tmp_path):
    damaged = str(shutil.copytree(data, tmp_path / "data"))
    shard = dataset_info.DatasetInfo.load(damaged).shard_paths(damaged, "train")[0]
    overwrite(shard, 2000)
    said = f"{shard}: shard does not match the sha256 in dataset_info.json; copy"
    with pytest.raises(errors.UserError, match=said):
        encoder.encode(weights, damaged, str(tmp_path / "out"), (), 1, False)


def test_a_read_error_is_not_reported_as_a_full_disk(weights, data, tmp_path, monkeypatch):
    real = files.sha256

    def fail(path):
        if path.startswith(data):
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path)

    monkeypatch.setattr(files, "sha256", fail)
    said = r"-of-00002.tfrecord cannot be read \(Input/output error\); check the disk or object"
    with pytest.raises(errors.UserError, match=said):
        encoder.encode(weights, data, str(tmp_path / "out"), (), 1, False)


def test_a_record_with_a_wrong_number_of_frames_is_refused(weights, data, tmp_path):
    damaged = str(shutil.copytree(data, tmp_path / "data"))
    info = dataset_info.DatasetInfo.load(damaged)
    shard = info.shard_paths(damaged, "dev")[0]
    records = list(schema.read_shard(shard))
    example = tf.train.Example.FromString(records[0])
    example.features.feature["num_frames"].int64_list.value[0] = 7
    with tf.io.TFRecordWriter(shard) as writer:
        for record in (example.SerializeToString(), *records[1:]):
            writer.write(record)
    split = info.splits["dev"]
    facts = {"num_bytes": os.path.getsize(shard), "sha256": files.sha256(shard)}
    changed = dataclasses.replace(split.shards[0], **facts)
    split = dataclasses.replace(split, shards=(changed, *split.shards[1:]))
    dataclasses.replace(info, splits={**info.splits, "dev": split}).save(damaged)
    with pytest.raises(errors.UserError, match="shard of split dev is damaged .*, expected 1120 for 7 f"):
        encoder.encode(weights, damaged, str(tmp_path / "out"), (3,), 1, False)


def test_outputs_that_overflow_are_refused_with_the_utterance_id(data, tmp_path):
    tensors = small_whisper.make_tensors()
    tensors["layers.1.fc2.bias"] = np.float32(tensors["layers.1.fc2.bias"]) + 1e5
    loud = small_whisper.write(tmp_path / "whisper", tensors)
    with pytest.raises(errors.UserError, match=r"u0\d: the encoder outputs NaN or Inf; listen to the"):
        encoder.encode(loud, data, str(tmp_path / "out"), (2,), 1, False)


def test_progress_counts_every_utterance(weights, data, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(dispatch.Progress, "note", lambda self, *message: told.append(message))
    encoder.encode(weights, data, str(tmp_path / "out"), (3,), num_workers=1, overwrite=False)
    first = dataset_info.DatasetInfo.load(data).splits["train"].shards[0].file
    # After each of the shard's three utterances, and when the shard is complete.
    assert [message for message in told if message[0] == first] == [(first, n, 0) for n in (1, 2, 3, 3)]
