"""python -m estimator_asr.demo.synthesise: right length, voices, text, same bytes, resumed."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from tfrecord_builder.corpora import registry
from tfrecord_builder.data import manifest

SETTINGS = (
    "--num_train=60",
    "--num_dev=4",
    "--num_test=6",
    "--num_train_voices=3",
    "--num_text_sentences=80",
    "--min_occurrences=1",
)


def run(output_dir, *flags, num_workers=2):
    command = [sys.executable, "-m", "estimator_asr.demo.synthesise", f"--output_dir={output_dir}"]
    return subprocess.run([*command, f"--num_workers={num_workers}", *flags], capture_output=True, text=True)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("synthesise") / "corpus"
    completed = run(output_dir, *SETTINGS)
    assert completed.returncode == 0, completed.stderr
    return output_dir


def hashes(corpus):
    files = sorted(path for path in pathlib.Path(corpus).rglob("*") if path.is_file())
    return {str(path.relative_to(corpus)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.long
def test_recordings_are_speech_of_the_right_length(corpus):
    utterances = list(registry.list_utterances("manifest", [str(corpus)]))
    assert len(utterances) == 70
    for utterance in utterances:
        samples, rate = soundfile.read(utterance.audio)
        assert (rate, samples.ndim) == (16000, 1)
        assert len(utterance.text) == len(utterance.pinyin.split())
        assert 0.1 < len(samples) / rate / len(utterance.text) < 0.7  # seconds a syllable
        assert np.std(samples) > 0.005
        assert 0.05 < np.max(np.abs(samples)) < 1


def test_voices_of_the_splits_differ(corpus):
    speakers = {split: set() for split in manifest.SPLITS}
    for utterance in registry.list_utterances("manifest", [str(corpus)]):
        speakers[utterance.split].add(utterance.speaker)
    assert {split: len(names) for split, names in speakers.items()} == {"train": 3, "dev": 4, "test": 6}


def test_text_has_a_syllable_for_each_hanzi(corpus):
    found = [u for u in registry.list_utterances("text", [str(corpus / "text")]) if u.split == "train"]
    assert len(found) == 80
    assert all(len(utterance.text) == len(utterance.pinyin.split()) for utterance in found)


@pytest.mark.long
def test_same_bytes_with_one_worker_and_after_an_interruption(corpus, tmp_path):
    """The interrupted run has lost a recording in the middle of a voice, and its tables."""
    assert run(tmp_path / "again", *SETTINGS, num_workers=1).returncode == 0
    assert hashes(tmp_path / "again") == hashes(corpus)
    lost = sorted((tmp_path / "again" / "wav").rglob("*.wav"))[20]
    lost.unlink()
    (tmp_path / "again" / "manifest.tsv").unlink()
    assert run(tmp_path / "again", *SETTINGS).returncode == 0
    assert hashes(tmp_path / "again") == hashes(corpus)


def test_finished_recordings_are_not_spoken_again(corpus):
    path = next((corpus / "wav").rglob("*.wav"))
    before = path.stat().st_mtime_ns
    assert run(corpus, *SETTINGS).returncode == 0
    assert path.stat().st_mtime_ns == before
