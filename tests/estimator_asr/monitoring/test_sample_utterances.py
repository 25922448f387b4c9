import dataclasses
import hashlib
import io
import pathlib

import numpy as np
import small_records
import soundfile

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import shard_cache
from estimator_asr.monitoring import sample_utterances
from tfrecord_builder.building import sharding
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling


def make_data(tmp_path, name="data", **options):
    path = str(tmp_path / name)
    return small_records.make_data(path, [("train", 2), ("dev", 20)], num_shards=1, **options), path


def choose(*data, count=4, split="dev", spec=task_spec.ACOUSTIC):
    """Chooses from (info, directory) pairs."""
    return sample_utterances.choose(*zip(*data), split, spec, count, shard_cache.ShardCache())


def test_the_same_few_are_chosen_whatever_the_order_of_the_directories(tmp_path):
    one, two = make_data(tmp_path, "one"), make_data(tmp_path, "two")
    chosen = [each.utterance_id for each in choose(one)]
    names = (f"dev{i:03d}" for i in range(20))
    assert chosen == sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:4]
    assert [each.utterance_id for each in choose(one, two)][::2] == chosen[:2]
    assert len(choose(one, count=99)) == 20


def test_an_utterance_without_words_or_without_frames_is_not_a_sample(tmp_path):
    def change(record):
        if record.utterance_id < "dev012":
            return small_records.without_words(record)
        num_frames = 0 if record.utterance_id < "dev015" else 1
        return dataclasses.replace(record, fbank=record.fbank[:num_frames])

    chosen = choose(make_data(tmp_path, change=change), count=99)
    assert sorted(each.utterance_id for each in chosen) == [f"dev{i:03d}" for i in range(15, 20)]


def test_a_sample_has_the_values_of_its_record(tmp_path):
    (first,) = choose(make_data(tmp_path), count=1)
    records = small_records.make_records("dev", 20)
    record = next(each for each in records if each.utterance_id == first.utterance_id)
    assert first.values["token_ids"].tolist() == record.token_ids
    np.testing.assert_array_equal(first.values["fbank"], record.fbank.astype(np.float32))
    assert pathlib.Path(first.shard).name == "dev-00000-of-00001.tfrecord"


def test_the_language_model_reads_text(tmp_path):
    (first,) = choose(make_data(tmp_path, with_audio=False), count=1, spec=task_spec.LANGUAGE)
    assert "fbank" not in first.values
    assert first.values["num_characters"] == first.values["num_tokens"] > 0


def test_data_without_the_split_has_no_samples(tmp_path):
    assert choose(make_data(tmp_path), split="test") == []


def write_recording(tmp_path, audio):
    """Returns an utterance that is 0.5 s of a recording's second channel, starting at 1 s."""
    utterance = manifest.Utterance("u", str(audio), "s", "你", "ni3", "dev", 1.0, 0.5, 1)
    item = sharding.LabelledUtterance(utterance, labelling.Labels("你", ("ni3",), ("你",)))
    (tmp_path / "dev-0.jsonl").write_text(sharding.to_line(item), encoding="utf-8")
    return sample_utterances.SampleUtterance("u", str(tmp_path / "dev-0.tfrecord"), {})


def test_the_sound_is_the_records_segment_of_the_recording(tmp_path):
    channels = np.zeros([16000, 2])
    channels[8000:12000, 1] = np.linspace(-0.5, 0.5, 4000)
    soundfile.write(tmp_path / "a.wav", channels, 8000)
    wav = sample_utterances.read_wav(write_recording(tmp_path, tmp_path / "a.wav"), 8000)
    samples, rate = soundfile.read(io.BytesIO(wav))
    assert rate == 8000 and samples.shape == (4000,)
    np.testing.assert_allclose(samples, np.linspace(-0.5, 0.5, 4000), atol=1e-4)


def test_a_missing_recording_is_logged(tmp_path, log):
    utterance = write_recording(tmp_path, tmp_path / "gone.wav")
    assert sample_utterances.read_wav(utterance, 8000) is None
    (line,) = log
    assert line.startswith("TensorBoard will not have the recording of u: ")
    assert "gone.wav: audio file does not exist" in line


def test_data_without_recordings_has_no_sound(tmp_path, log):
    utterance = sample_utterances.SampleUtterance("u", str(tmp_path / "dev-0.tfrecord"), {})
    assert sample_utterances.read_wav(utterance, 8000) is None and log == []
    (tmp_path / "dev-0.jsonl").write_text("{")
    assert sample_utterances.read_wav(utterance, 8000) is None and "line 1 is not a valid item" in log[0]
