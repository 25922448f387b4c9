"""Tests eSpeak NG: its timbres, recordings, and errors if it is missing or damaged."""

import dataclasses
import importlib.util
import itertools
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tfrecord_builder import errors
from tfrecord_builder.data import syllables
from tfrecord_builder.synthesis import espeak


def test_missing_espeak_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.UserError, match="pip install espeakng-loader==0.2.4"):
        espeak.EspeakEngine(seed=1)


def test_speakers_are_one_per_voice_then_more_of_each():
    engine = espeak.EspeakEngine(seed=1)
    names = engine.list_voices()
    assert len(names) == len(set(names)) == 47
    assert [speaker.name for speaker in engine.make_speakers(names, 3)] == ["Alex", "Andy", "Annie"]
    more = engine.make_speakers(["f1", "m3"], 5)
    assert [speaker.name for speaker in more] == ["f1", "m3", "f1-2", "m3-2", "f1-3"]
    assert more[2].variant == "f1" and more[2].pitch != more[0].pitch


PHONEMES = """
import ctypes, sys
from tfrecord_builder.synthesis import espeak
library = espeak.EspeakSynthesiser()._library
library.espeak_SetVoiceByName(b"cmn-latn-pinyin+f1")
library.espeak_TextToPhonemes.restype = ctypes.c_char_p
for syllable in sys.stdin.read().split():
    text = ctypes.c_char_p(syllable.encode())
    print(library.espeak_TextToPhonemes(ctypes.byref(text), 1, 2).decode())
"""


def _spell(initial, final):
    spelled = f"{initial}  {final}".strip()
    for pattern, replacement in syllables.JOIN_RULES:
        spelled = re.sub(pattern, replacement, spelled)
    return spelled


def test_no_syllable_is_spelled_out_in_english():
    engine = espeak.EspeakEngine(seed=1)
    parts = itertools.product(syllables.INITIALS, syllables.FINALS, ("", "r"), syllables.TONES)
    tokens = ["r5", *(_spell(initial, "".join(rest)) for initial, *rest in parts)]
    tokens = [token for token in dict.fromkeys(tokens) if engine.speaks(token)]
    assert len(tokens) > 2000 and {"xiong2", "er4", "ren2", "nv3", "yong4", "zhi1"} <= set(tokens)
    assert {"hm5", "n2", "huar1", "ger4", "err4", "jang1"}.isdisjoint(tokens)
    sounds = engine.pronounce(["啊" * len(tokens)], tokens)
    command = [sys.executable, "-c", PHONEMES]
    done = subprocess.run(command, input=" ".join(sounds), capture_output=True, text=True, check=True)
    phonemes = done.stdout.split("\n")[:-1]
    assert [each for each in zip(tokens, phonemes) if "(" in each[1] or not each[1]] == []
    assert len(phonemes) == len(tokens)


def test_respelled_syllables():
    given = ["da4", "xiong2", "qiong2", "nv3", "r5"]
    said = espeak.EspeakEngine(seed=1).pronounce(["大熊", "穷", "女儿"], given)
    assert said == ["da4", "xong2", "qong2", "nv3", "er5"]


DAMAGED = """
import sys, espeakng_loader
from tfrecord_builder.synthesis import espeak
espeakng_loader.get_data_path = lambda: sys.argv[1]
espeak.EspeakSynthesiser().speak("ni2hao3", espeak.make_voice("f1", 1), 175)
"""


def _speaker_with_data(path):
    """Runs eSpeak NG with other data in a new process, because it can start only once; returns stderr."""
    command = [sys.executable, "-c", DAMAGED, str(path)]
    return subprocess.run(command, capture_output=True, text=True).stderr


def test_missing_data_of_espeak_are_an_error(tmp_path):
    said = _speaker_with_data(tmp_path / "nowhere")
    problem = f"eSpeak NG cannot start with the data in {tmp_path / 'nowhere'} (sample rate 0), so "
    assert f"UserError: synthesise: {problem}" in said
    assert "is damaged; run: pip install --force-reinstall --no-deps espeakng-loader==0.2.4" in said


def test_a_missing_voice_of_espeak_is_an_error(tmp_path):
    import espeakng_loader

    lacking = shutil.copytree(espeakng_loader.get_data_path(), tmp_path / "data")
    (lacking / "lang" / "sit" / "cmn-Latn-pinyin").unlink()
    problem = "eSpeak NG has no voice cmn-latn-pinyin+f1, so espeakng-loader is damaged"
    assert f"UserError: synthesise: {problem}" in _speaker_with_data(lacking)


def test_a_missing_library_of_espeak_is_an_error(monkeypatch):
    import espeakng_loader

    monkeypatch.setattr(espeakng_loader, "get_library_path", lambda: "/nowhere.so")
    message = r"eSpeak NG cannot be loaded \(/nowhere.so: .* is damaged; run: pip install"
    with pytest.raises(errors.UserError, match=message):
        espeak.EspeakSynthesiser()


def test_every_variant_has_its_own_timbre():
    """eSpeak NG silently accepts an unknown variant and uses its plain voice."""
    speaker = espeak.EspeakSynthesiser()
    spoken = {}
    for variant in ("no such variant", *espeak.EspeakEngine(seed=1).list_voices()):
        voice = espeak.Voice(variant, variant, 175, 50, 50, level_db=6.0, noise_db=None)
        samples = speaker.speak("ni2hao3", voice, voice.words_per_minute)
        spectrum = np.log(np.abs(np.fft.rfft(samples[:8000])) + 1e-3)
        spoken[variant] = spectrum.reshape(-1)[:4000].reshape(80, 50).mean(axis=1)
    names = list(spoken)
    distances = {(a, b): np.abs(spoken[a] - spoken[b]).mean() for i, a in enumerate(names) for b in names[:i]}
    closest = min(distances, key=distances.get)
    assert distances[closest] > 0.03, closest


RATE = 16000
TONE = np.sin(2 * np.pi * 200 * np.arange(RATE) / RATE).astype(np.float32)  # one second
QUIET = espeak.Voice("f1", "f1", 175, 50, 50, level_db=6.0, noise_db=None)


def test_voices_differ_in_speed_pitch_level_and_noise():
    made = [espeak.make_voice(variant, seed=1) for variant in espeak.VARIANTS]
    assert len({voice.words_per_minute for voice in made}) > 20
    assert len({voice.pitch for voice in made}) > 10
    assert max(v.level_db for v in made) - min(v.level_db for v in made) > 12
    assert 10 < sum(voice.noise_db is not None for voice in made) < len(made) - 10
    first, again, other = (espeak.make_voice("f1", seed) for seed in (1, 1, 2))
    assert first == again != other


def test_record_sets_the_level_and_adds_silence():
    recorded = espeak.record(TONE, RATE, QUIET, np.random.RandomState(0))
    assert np.max(np.abs(recorded)) == pytest.approx(10 ** (-6 / 20), abs=1e-5)
    assert 0.1 * RATE <= len(recorded) - len(TONE) <= 0.6 * RATE
    assert np.all(recorded[: int(0.05 * RATE)] == 0)


def test_record_adds_noise_with_the_signal_to_noise_ratio_of_the_voice():
    noisy = dataclasses.replace(QUIET, noise_db=20.0, level_db=0.0)
    recorded = espeak.record(TONE, RATE, noisy, np.random.RandomState(0))
    before = recorded[: int(0.05 * RATE)]  # the silence lasts at least 0.05 s
    speech = recorded[len(recorded) // 2 - RATE // 4 : len(recorded) // 2 + RATE // 4]
    assert 20 * np.log10(np.std(speech) / np.std(before)) == pytest.approx(20, abs=5)
