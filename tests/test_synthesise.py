"""python -m tfrecord_builder.synthesise: speech of the right length, the same bytes, resumed, refused."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from tfrecord_builder import errors, manifest
from tfrecord_builder.synthesis import corpus_writer, espeak, voices

SETTINGS = (
    "--num_train=60",
    "--num_dev=4",
    "--num_test=6",
    "--num_train_voices=3",
    "--num_text_sentences=80",
    "--min_occurrences=1",
)


def run(output_dir, *flags, num_workers=2):
    command = [sys.executable, "-m", "tfrecord_builder.synthesise", f"--output_dir={output_dir}"]
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


def test_recordings_are_speech_of_the_right_length(corpus):
    utterances = manifest.read_manifest(str(corpus / "manifest.tsv"))
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
    for utterance in manifest.read_manifest(str(corpus / "manifest.tsv")):
        speakers[utterance.split].add(utterance.speaker)
    assert {split: len(names) for split, names in speakers.items()} == {"train": 3, "dev": 4, "test": 6}


def test_text_has_a_syllable_for_each_hanzi(corpus):
    rows = manifest.read_table(str(corpus / "text" / "train.tsv"), ("hanzi", "pinyin"))
    assert len(rows) == 80
    assert all(len(row["hanzi"]) == len(row["pinyin"].split()) for row in rows)


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


def test_refuses_a_corpus_of_other_settings(corpus):
    before = hashes(corpus)
    completed = run(corpus, *SETTINGS, "--synthesis_seed=2")
    assert completed.returncode == 1
    assert '"synthesis_seed": 1 }, expected' in completed.stderr
    assert "Traceback" not in completed.stderr
    assert hashes(corpus) == before


def test_refuses_a_directory_of_something_else(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    completed = run(tmp_path, *SETTINGS)
    assert completed.returncode == 1
    assert "holds files and no synthesis.json, expected an empty or a new directory" in completed.stderr


def test_says_how_to_install_espeak(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.UserError, match="pip install espeakng-loader==0.2.4"):
        espeak.check_installed()


def test_a_voice_that_dies_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(corpus_writer, "_speak", sys.exit)  # called with three arguments: ends with code 1
    with pytest.raises(errors.UserError, match="speaking as f1 ended with code 1, expected 0"):
        corpus_writer._speak_in_new_process(str(tmp_path), [_Recording()], 1)


class _Recording:
    variant = "f1"


def test_every_variant_is_a_timbre_of_its_own():
    """eSpeak NG takes an unknown variant without a word and speaks with its plain voice."""
    speaker = espeak.Speaker()
    spoken = {}
    for variant in ("no such variant", *(name for names in voices.VARIANTS.values() for name in names)):
        voice = voices.Voice(variant, 175, 50, 50, level_db=6.0, noise_db=None)
        samples = speaker.speak("ni2hao3", voice, voice.words_per_minute)
        spectrum = np.log(np.abs(np.fft.rfft(samples[:8000])) + 1e-3)
        spoken[variant] = spectrum.reshape(-1)[:4000].reshape(80, 50).mean(axis=1)
    names = list(spoken)
    distances = {(a, b): np.abs(spoken[a] - spoken[b]).mean() for i, a in enumerate(names) for b in names[:i]}
    closest = min(distances, key=distances.get)
    assert distances[closest] > 0.03, closest
