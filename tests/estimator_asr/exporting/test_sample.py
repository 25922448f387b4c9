"""Utterances and their recordings are read from a data directory that the builder wrote."""

import json
import os
import pathlib

import built_data
import numpy as np
import pytest
import small_corpora
import soundfile

from estimator_asr.experiment import config, task_spec
from estimator_asr.exporting import sample
from estimator_asr.inputs import splits
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import builder
from tfrecord_builder.data import dataset_info


@pytest.fixture
def data_dir(tmp_path):
    return built_data.make(tmp_path)


def read(data_dir: str, num_utterances: int = 10, max_seconds: int = 180) -> dict:
    source = splits.read_split(dataset_info.load_all((data_dir,)), (data_dir,), "dev", task_spec.ACOUSTIC)
    found = sample.read(source, config.InputConfig(), num_utterances, frontend.FrontendConfig(), max_seconds)
    return {each.utterance_id: each for each in found}


def list_recordings(data_dir: str) -> dict[str, str]:
    """Returns the paths of the recordings in dev, keyed by utterance id."""
    texts = [path.read_text() for path in pathlib.Path(data_dir).glob("dev-*.jsonl")]
    utterances = [json.loads(line)["utterance"] for text in texts for line in text.splitlines()]
    return {each["utterance_id"]: each["audio"] for each in utterances}


def test_waveforms_are_read_from_the_recordings(data_dir):
    found, paths = read(data_dir), list_recordings(data_dir)
    assert len(found) == 3 and set(found) == set(paths)
    for name, each in found.items():
        samples, _ = soundfile.read(paths[name], dtype="float32")
        np.testing.assert_array_equal(each.waveform, samples)
        assert each.fbank.shape[1] == 80 and each.fbank.dtype == np.float32


def test_waveform_is_none_if_the_recording_is_missing_or_not_audio(data_dir):
    (first, one), (second, two), (third, _) = list_recordings(data_dir).items()
    os.remove(one)
    pathlib.Path(two).write_bytes(b"RIFF")
    found = read(data_dir)
    assert found[first].waveform is None and found[second].waveform is None
    assert found[third].waveform is not None


@pytest.mark.long
def test_utterances_that_are_too_long_for_the_export_are_left_out(tmp_path):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "corpus", 12, 3)
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, 17000)
    soundfile.write(f"{corpus_dir}/audio/u13.wav", noise, 16000)
    soundfile.write(f"{corpus_dir}/audio/u14.wav", noise[:16040], 16000)  # no more frames than in a second
    long = builder.BuildConfig(corpus_dir=(corpus_dir,), output_dir=str(tmp_path / "long"), num_workers=1)
    builder.build(long, frontend.FrontendConfig())
    assert set(read(long.output_dir)) == {"u12", "u13", "u14"}
    found = read(long.output_dir, max_seconds=1)
    assert {name: each.waveform is None for name, each in found.items()} == {"u12": False, "u14": True}


def test_a_sample_without_utterances_is_refused(data_dir, monkeypatch):
    monkeypatch.setattr(sample.input_fn, "read_sample", lambda *arguments: iter(()))
    with pytest.raises(errors.UserError) as refused:
        read(data_dir, 1)
    assert str(refused.value) == (
        "export: --parity_utterances=1 selects no utterance of at most 180 s from the split, which has "
        "3 utterances; pass a larger number"
    )
