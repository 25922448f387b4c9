"""The benchmark of transcription gives both sides the same recordings, and says what it found."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import paths
import pytest
import soundfile

from benchmarks.pretrained import random_whisper
from benchmarks.transcription import __main__ as transcription
from benchmarks.transcription import ours as transcription_ours
from tfrecord_builder import errors
from tfrecord_builder.data import manifest

CONFIG = transcription.BenchmarkConfig(
    num_recordings=3, train_epochs=1, whisper_layers=3, whisper_units=64, rounds=2
)
needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="benchmarks/requirements.txt is not installed"
)


def write_corpus(directory, *rows):
    """Writes a corpus of (text, pinyin, seconds); returns its directory."""
    utterances = []
    for number, (text, pinyin, seconds) in enumerate(rows):
        path = str(directory / f"{number}.wav")
        soundfile.write(path, np.full(int(8000 * seconds), 0.01 * number), 8000)
        utterances.append(manifest.Utterance(f"u{number}", path, "", text, pinyin, "test"))
    manifest.write_manifest(str(directory / "manifest.tsv"), utterances)
    return str(directory)


class Side:
    """Writes as many labels as it is asked for, or two."""

    sample_rate = 16000

    def transcribe(self, waveform, num_labels=2):
        return num_labels * "好"


def test_recordings_are_chosen_evenly_and_resampled(tmp_path):
    rows = [
        ("今天 OK。", "", 1.0),
        ("", "", 1.0),
        ("", "ni3 hao3 ma5", 1.5),
        ("好", "", 2.0),
        ("去", "", 2.5),
    ]
    found = transcription.read_recordings(write_corpus(tmp_path, *rows), 2, sample_rate=16000)
    assert [os.path.basename(each.path) for each in found] == ["0.wav", "3.wav"]  # of 0, 2, 3, 4
    assert [each.num_labels for each in found] == [2, 1]
    assert [each.waveform.shape for each in found] == [(16000,), (32000,)]
    every = transcription.read_recordings(str(tmp_path), 9, sample_rate=16000)
    assert [each.num_labels for each in every] == [2, 3, 1, 1]


def test_a_corpus_without_references_is_refused(tmp_path):
    corpus_dir = write_corpus(tmp_path, ("hello", "", 1.0))
    with pytest.raises(errors.UserError, match="has 0 recordings with hanzi or pinyin, .* fill manifest.tsv"):
        transcription.read_recordings(corpus_dir, 1, sample_rate=16000)


def test_a_recording_of_more_than_30_seconds_is_refused(tmp_path):
    corpus_dir = write_corpus(tmp_path, ("好", "", 31.0))
    with pytest.raises(errors.UserError, match="0.wav: .*30"):
        transcription.read_recordings(corpus_dir, 1, sample_rate=16000)


def test_a_program_that_fails_is_named(capfd):
    expected = "benchmarks: tfrecord_builder.verify exited with 1, expected 0; its output is above"
    with pytest.raises(errors.UserError, match=expected):
        transcription_ours._run("tfrecord_builder.verify", "--data_dir=/nowhere")
    assert "/nowhere" in capfd.readouterr().err


def test_table_and_bar(capsys):
    recordings = [
        transcription.Recording("a", np.zeros(16000), 3),
        transcription.Recording("b", np.zeros(8000), 4),
    ]
    (bar,) = transcription.time_sides(Side(), Side(), recordings, rounds=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 recordings, 1.5 s of speech, 7 hanzi, 2 rounds"
    assert [(line.split()[0], line.split()[-1]) for line in lines[2:]] == [
        ("ours", "4"),
        ("CTranslate2", "7"),
    ]
    assert (bar.what, bar.minimum) == ("transcription, times as fast as CTranslate2", 3)


@pytest.mark.slow
def test_the_programs_make_a_model_that_transcribes(tmp_path, capsys):
    corpus_dir, saved_model = transcription.make_missing(CONFIG, str(tmp_path))
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == [
        "tfrecord_builder.build",
        "estimator_asr.encode",
        "estimator_asr.train",
        "estimator_asr.train",
        "estimator_asr.export",
    ]
    recordings = transcription.read_recordings(corpus_dir, 9, sample_rate=16000)
    assert len(recordings) == 3 + 1  # one is on dev too
    assert all(6 < each.waveform.size / 16000 < 10 and each.num_labels > 19 for each in recordings)
    ours = transcription_ours.Transcriber(saved_model)
    assert ours.sample_rate == 16000
    assert isinstance(ours.transcribe(recordings[0].waveform), str)


def test_what_is_given_is_not_made(tmp_path):
    config = transcription.BenchmarkConfig(saved_model="export", audio_dir="corpus")
    assert transcription.make_missing(config, str(tmp_path)) == ("corpus", "export")
    assert os.listdir(tmp_path) == []


@needs_ctranslate2
@pytest.mark.slow
def test_the_peer_decodes_as_many_tokens_as_it_is_asked_for(tmp_path):
    from benchmarks.transcription import peer as transcription_peer

    transcription_peer.write(str(tmp_path / "model"), random_whisper.make_sizes(layers=1, units=64))
    peer = transcription_peer.Transcriber(str(tmp_path / "model"), num_threads=1)
    waveform = np.float32(np.random.default_rng(1).normal(scale=0.1, size=16000))
    for num_tokens in (1, 2, 3, 30):
        ids = peer.transcribe(waveform, num_tokens)
        assert len(ids) == num_tokens and min(ids) >= 5  # the special tokens are suppressed


def test_help_teaches():
    command = [sys.executable, "-m", "benchmarks.transcription", "--help"]
    said = subprocess.run(command, cwd=str(paths.ROOT), capture_output=True, text=True).stdout
    for words in ("--saved_model=EXPORT --audio_dir=CORPUS", "padded to 30 seconds", "--rounds: times"):
        assert words in said
