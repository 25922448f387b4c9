"""Utterances of corpora and data directories, and how their recordings are read."""

import os

import built_data
import numpy as np
import pytest
import small_corpora
import telephone_files

from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import utterances
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, containers, frontend
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.building import builder
from tfrecord_builder.data import manifest


def test_a_corpus(tmp_path):
    (tmp_path / "manifest.tsv").write_text(
        "id\taudio\ttext\tstart\tduration\n"
        "a\tlong.wav\t今天\t1.5\t2\nb\tlong.wav\t明天\t4\t3\nc\tshort.wav\t\t\t\nd\tshort.wav\t昨天\t\t\n",
        encoding="utf-8",
    )
    listed = utterances.list_corpus("manifest", [str(tmp_path)])
    assert [(each.name, os.path.basename(each.path)) for each in listed] == [
        ("a", "long.wav"),
        ("b", "long.wav"),
        ("d", "short.wav"),  # c has no transcript
    ]
    times = [(each.utterance.text, each.utterance.start_seconds, each.utterance.seconds) for each in listed]
    assert times == [("今天", 1.5, 2.0), ("明天", 4.0, 3.0), ("昨天", 0.0, None)]


def test_a_corpus_without_audio_is_refused(tmp_path):
    small_corpora.make_text_corpus(tmp_path / "text")
    message = "--corpus_dir=.*text has no utterances with audio and a transcript; check"
    with pytest.raises(errors.UserError, match=message):
        utterances.list_corpus("text", [str(tmp_path / "text")])


def build(path, **augmentation):
    """Builds data from a corpus of six utterances; returns the directories of both."""
    corpus_dir, data_dir = small_corpora.make_manifest_corpus(path / "corpus", 4, 2), str(path / "data")
    config = builder.BuildConfig(corpus_dir=(corpus_dir,), output_dir=data_dir, num_shards=2, num_workers=1)
    augmented = augmentation_config.AugmentationConfig(**augmentation)
    builder.build(config, frontend.FrontendConfig(), augmented)
    return corpus_dir, data_dir


def test_each_original_in_augmented_data_is_listed_once(tmp_path):
    corpus_dir, data_dir = build(tmp_path, speed_perturb_factors=(0.9, 1.1))
    listed = utterances.list_data([data_dir])
    original = {each.name: each.utterance for each in utterances.list_corpus("manifest", [corpus_dir])}
    assert {each.name: each.utterance for each in listed} == original and len(listed) == len(original) == 6


def test_data_directories_may_have_the_same_ids(tmp_path):
    listed = utterances.list_data([build(tmp_path / name)[1] for name in ("a", "b")])
    assert len(listed) == len({each.path for each in listed}) == 12
    assert len({each.name for each in listed}) == 6


def test_data_without_the_names_of_recordings_are_refused(tmp_path):
    data_dir = built_data.make(tmp_path, 2, 1)
    os.remove(os.path.join(data_dir, "train-00000-of-00002.jsonl"))
    message = "--data_dir=.*data: .*train-00000-of-00002.jsonl is missing; copy or build"
    with pytest.raises(errors.UserError, match=message):
        utterances.list_data([data_dir])
    with pytest.raises(errors.UserError, match="--data_dir=.*text has no utterances with audio"):
        utterances.list_data([built_data.make_text(tmp_path)])


def make_unit(*rows):
    """Returns a unit of utterances, each a path, a start and seconds."""
    signed = []
    for path, *segment in rows:
        utterance = manifest.Utterance("u", path, "", "今天", "", "train", *segment)
        recording = recordings.RecordingFile(path, "u", utterance=utterance)
        signed.append((recording, recording_units._sign(recording)))
    return recording_units.RecordingUnit("0.jsonl", tuple(signed))


def test_a_container_is_decoded_once_for_successive_utterances(tmp_path, monkeypatch):
    pytest.importorskip("av")
    path, missing = str(tmp_path / "a.m4a"), str(tmp_path / "missing.wav")
    (tmp_path / "a.m4a").write_bytes(telephone_files.encode("m4a", 5.0))
    expected = [audio_files.read_audio(path, 16000, 300.0, start, 1.0) for start in (0.5, 3.0)]
    decode, decoded = containers.decode, []
    monkeypatch.setattr(containers, "decode", lambda *values: decoded.append(1) or decode(*values))
    unit = make_unit((path, 0.5, 1.0), (path, 3.0, 1.0), (missing, 0.0, 1.0))
    *read, problem = utterances._read_utterances(unit, 16000)
    np.testing.assert_array_equal(read, expected)
    assert len(decoded) == 1 and isinstance(problem, errors.UserError)
