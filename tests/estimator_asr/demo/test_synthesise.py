"""python -m estimator_asr.demo.synthesise: right length, same bytes, resumed, refused, ended."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import soundfile

from estimator_asr.demo import espeak, script, synthesis, synthesise, voices
from tfrecord_builder import errors
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


def small_plan(**changes):
    config = script.SynthesisConfig(
        **{
            "num_train": 20,
            "num_dev": 1,
            "num_test": 1,
            "num_text_sentences": 30,
            "min_occurrences": 1,
            **changes,
        }
    )
    return config, script.make_plan(config)


def test_refuses_a_corpus_of_other_settings_or_sentences(tmp_path):
    config, plan = small_plan()
    for _ in range(2):
        synthesise.claim(str(tmp_path), config, plan)
    other_config, other_plan = small_plan(synthesis_seed=2)
    message = (
        "the corpus there was built from different settings, sentences, pinyin or voices: .*synthesis.json"
    )
    for each in (config, other_config):
        with pytest.raises(
            errors.UserError, match=f'{message} is .*"synthesis_seed": 1 }}, expected .* }}; rem'
        ):
            synthesise.claim(str(tmp_path), each, other_plan)


def test_refuses_settings_that_are_incomplete(tmp_path):
    (tmp_path / "synthesis.json").write_text("{}")
    with pytest.raises(errors.UserError, match="synthesis.json is {}, expected { "):
        synthesise.claim(str(tmp_path), *small_plan())


def test_refuses_a_directory_of_something_else(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    message = "contains files but no synthesis.json, expected an empty or a new directory"
    with pytest.raises(errors.UserError, match=message):
        synthesise.claim(str(tmp_path), *small_plan())
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_asks_for_the_directory():
    with pytest.raises(errors.UserError, match="--output_dir is missing; pass it"):
        synthesise.OutputConfig()


@pytest.mark.long
def test_a_recording_that_cannot_be_written_is_named_and_ends_the_other_voices(tmp_path):
    config = script.SynthesisConfig()  # 48 voices, which would speak for a minute
    synthesise.claim(str(tmp_path), config, script.make_plan(config))
    (tmp_path / "wav").mkdir()
    (tmp_path / "wav" / "Alex").touch()
    completed = run(tmp_path)
    assert completed.returncode == 1
    first, second = completed.stderr.splitlines()
    assert first.startswith(f"error: {tmp_path / 'wav' / 'Alex'}: File exists; ")
    assert second.startswith("error: synthesise: the process of a voice ended with exit code 1; see above")
    assert len(list(tmp_path.rglob("*.wav"))) < 100


def test_says_how_to_install_espeak(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.UserError, match="pip install espeakng-loader==0.2.4"):
        espeak.check_installed()


DAMAGED = """
import sys, espeakng_loader
from estimator_asr.demo import espeak, voices
espeakng_loader.get_data_path = lambda: sys.argv[1]
espeak.Speaker().speak("ni2hao3", voices.make_voice("f1", 1), 175)
"""


def _speaker_with_data(path):
    """What eSpeak NG says on other data; in a process of its own, for it starts but once."""
    command = [sys.executable, "-c", DAMAGED, str(path)]
    return subprocess.run(command, capture_output=True, text=True).stderr


def test_says_that_the_data_of_espeak_are_not_there(tmp_path):
    said = _speaker_with_data(tmp_path / "nowhere")
    assert (
        f"UserError: synthesise: eSpeak NG cannot start on {tmp_path / 'nowhere'} (sample rate 0); " in said
    )
    assert "is damaged, run: pip install --force-reinstall --no-deps espeakng-loader==0.2.4" in said


def test_says_that_espeak_lacks_the_voice(tmp_path):
    import espeakng_loader

    lacking = shutil.copytree(espeakng_loader.get_data_path(), tmp_path / "data")
    (lacking / "lang" / "sit" / "cmn-Latn-pinyin").unlink()
    said = _speaker_with_data(lacking)
    assert (
        "UserError: synthesise: eSpeak NG has no voice cmn-latn-pinyin+f1; espeakng-loader is damaged" in said
    )


def test_says_that_the_library_of_espeak_is_not_there(monkeypatch):
    import espeakng_loader

    monkeypatch.setattr(espeakng_loader, "get_library_path", lambda: "/nowhere.so")
    with pytest.raises(
        errors.UserError, match=r"eSpeak NG cannot be loaded \(/nowhere.so: .* is damaged, run: pip install"
    ):
        espeak.Speaker()


def test_a_voice_that_dies_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(synthesis, "_speak", sys.exit)  # called with three arguments: ends with code 1
    _, plan = small_plan()
    with pytest.raises(
        errors.UserError, match="process of a voice ended with exit code 1; see above, or pass"
    ):
        synthesis.write_recordings(str(tmp_path), plan, seed=1, num_workers=1)


def _to_the_group(number):
    return lambda process: os.killpg(process.pid, number)  # as a terminal does on Ctrl-C, and the demo


@pytest.mark.parametrize(
    "end, exit_code",
    [
        (_to_the_group(signal.SIGINT), 130),
        pytest.param(_to_the_group(signal.SIGTERM), 143, marks=pytest.mark.slow),
        pytest.param(lambda process: process.terminate(), 143, marks=pytest.mark.slow),
        pytest.param(lambda process: process.kill(), -signal.SIGKILL, marks=pytest.mark.slow),
    ],
    ids=["ctrl_c", "sigterm_to_all", "sigterm", "sigkill"],
)
def test_however_it_ends_no_process_and_no_half_of_a_file_is_left(tmp_path, end, exit_code):
    command = [
        sys.executable,
        "-m",
        "estimator_asr.demo.synthesise",
        f"--output_dir={tmp_path}",
        "--num_workers=3",
    ]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )
    _wait_until(lambda: list(tmp_path.rglob("*.wav")))
    end(process)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == exit_code
    assert said == ("interrupted\n" if exit_code == 130 else "")
    _wait_until(lambda: not _is_group(process.pid))
    assert list(tmp_path.rglob("*.incomplete")) == []


def _is_group(process_group):
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True


def _wait_until(is_true):
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


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
