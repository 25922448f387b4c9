"""The utterances of corpora and of data directories."""

from __future__ import annotations

import os

import built_data
import pytest
import small_corpora

from estimator_asr.serving.alignment import utterances
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.building import builder


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
    with pytest.raises(
        errors.UserError, match="--corpus_dir=.*text has no utterances with audio and a transcript; check"
    ):
        utterances.list_corpus("text", [str(tmp_path / "text")])


def test_data_name_each_original_once(tmp_path):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "corpus", 4, 2)
    config = builder.BuildConfig(
        corpus_dir=(corpus_dir,), output_dir=str(tmp_path / "data"), num_shards=2, num_workers=1
    )
    augmentation = augmentation_config.AugmentationConfig(speed_perturb_factors=(0.9, 1.1))
    builder.build(config, frontend.FrontendConfig(), augmentation)
    listed = utterances.list_data([str(tmp_path / "data")])
    original = {each.name: each.utterance for each in utterances.list_corpus("manifest", [corpus_dir])}
    assert {each.name: each.utterance for each in listed} == original and len(listed) == len(original) == 6


def test_data_directories_may_have_the_same_ids(tmp_path):
    data_dirs = []
    for name in ("a", "b"):
        corpus_dir = small_corpora.make_manifest_corpus(tmp_path / name, 4, 2)
        data_dirs.append(str(tmp_path / f"data-{name}"))
        config = builder.BuildConfig(
            corpus_dir=(corpus_dir,), output_dir=data_dirs[-1], num_shards=2, num_workers=1
        )
        builder.build(config, frontend.FrontendConfig(), augmentation_config.AugmentationConfig())
    listed = utterances.list_data(data_dirs)
    assert len(listed) == len({each.path for each in listed}) == 12
    assert len({each.name for each in listed}) == 6


def test_data_without_the_names_of_recordings_are_refused(tmp_path):
    data_dir = built_data.make(tmp_path, 2, 1)
    os.remove(os.path.join(data_dir, "train-00000-of-00002.jsonl"))
    with pytest.raises(
        errors.UserError, match="--data_dir=.*data: .*train-00000-of-00002.jsonl is missing; copy or build"
    ):
        utterances.list_data([data_dir])
    with pytest.raises(errors.UserError, match="--data_dir=.*text has no utterances with audio"):
        utterances.list_data([built_data.make_text(tmp_path)])
