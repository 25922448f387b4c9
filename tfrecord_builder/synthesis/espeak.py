"""Synthesises speech from pinyin with eSpeak NG, loaded through ctypes from the wheel espeakng-loader.

eSpeak NG keeps hidden state between utterances, which changes the voice's flutter. To produce the same bytes
again, a new process must synthesise the same utterances in the same order. A speaker is a variant of eSpeak
NG's Mandarin voice with random speed, pitch, level and noise.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib.util
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Optional

import numpy as np
import soxr

from tfrecord_builder import errors
from tfrecord_builder.labels import tone_sandhi
from tfrecord_builder.synthesis import prompts

_WHEEL = "espeakng-loader==0.2.4"
# Variants that sound human and preserve tones: no robots, and no whispers (although Alicia half whispers).
VARIANTS = tuple(
    (
        "Alex Andy Annie Denis Diogo Gene Henrique Lee Mario Michael Mike Nguyen Reed adam announcer "
        "aunty belinda benjamin boris david edward f1 f3 f4 grandma ian john klatt4 linda m1 m3 m4 m6 m7 max "
        "michel paul f5 m5 miguel rob f2 m2 pablo steph victor Gene2"
    ).split()
)
_MAX_SPEAKERS_PER_VARIANT = 20  # more speakers would hardly differ

# Syllables that eSpeak NG would read as English: _UNKNOWN rejects some; _RESPELLED spells others differently
# (xong2 instead of xiong2, xu1 instead of xv1, er5 instead of r5).
_UNKNOWN = re.compile("(?:h?m|n|hng|ê|iai|io|v.*|(?!e?r[1-5]).*r)[1-5]")
_RESPELLED = (
    (re.compile("^([jqx])iong"), r"\1ong"),
    (re.compile("^([jqx])v"), r"\1u"),
    (re.compile("^r(?=[1-5])"), "er"),
)

# Constants and types from eSpeak NG's speak_lib.h.
_SYNCHRONOUS_TO_CALLBACK = 2
_DO_NOT_EXIT_ON_ERROR = 0x8000
_UTF8_TEXT = 1
_SPEED, _VOLUME, _PITCH, _PITCH_RANGE = 1, 2, 3, 4
_BY_CHARACTER = 1
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


@dataclasses.dataclass(frozen=True)
class Voice:
    """A speaker: one of eSpeak NG's variants and its settings."""

    name: str
    variant: str  # eSpeak NG's name for the timbre
    words_per_minute: int  # eSpeak NG's unit of speed; 175 is about 3.6 syllables per second
    pitch: int  # 0 to 100; 50 is the variant's default
    pitch_range: int  # 0 to 100; 50 is the variant's default
    level_db: float  # peak of a recording, in dB below full scale
    noise_db: Optional[float]  # signal-to-noise ratio in dB; None for no noise


@dataclasses.dataclass(frozen=True)
class EspeakEngine(prompts.SpeechEngine):
    """The speech synthesiser eSpeak NG; the constructor raises errors.UserError if the wheel is missing."""

    seed: int
    library = "espeakng-loader"
    prompts_per_process = 10**9  # one process per speaker, because a recording depends on earlier prompts
    default_prefix = ""

    def __post_init__(self):
        if importlib.util.find_spec("espeakng_loader") is None:
            raise errors.UserError(
                f"synthesise: espeakng-loader (eSpeak NG) is not installed; run: pip install {_WHEEL}"
            )

    def list_voices(self) -> list[str]:
        return list(VARIANTS)

    def make_speakers(self, variants: Sequence[str], count: int) -> list[Voice]:
        """Returns at most `count` voices: one for each variant, then a second for each variant, and so on."""
        pairs = itertools.product(range(1, _MAX_SPEAKERS_PER_VARIANT + 1), variants)
        return [make_voice(variant, self.seed, number) for number, variant in itertools.islice(pairs, count)]

    def speaks(self, token: str) -> bool:
        return super().speaks(token) and not _UNKNOWN.fullmatch(token)

    def pronounce(self, words: Sequence[str], syllables: list[str]) -> list[str]:
        """Returns the syllables respelled for eSpeak NG, with tone sandhi, which it does not apply itself."""
        spelled = tone_sandhi.change_tones(words, syllables, [False] * len(syllables))
        for pattern, replacement in _RESPELLED:
            spelled = [pattern.sub(replacement, syllable) for syllable in spelled]
        return spelled

    def open(self) -> Callable[[prompts.Prompt], np.ndarray]:
        return functools.partial(self._speak, EspeakSynthesiser())

    def _speak(self, speaker: EspeakSynthesiser, prompt: prompts.Prompt) -> np.ndarray:
        rng = prompts.random_state(self.seed, prompt.utterance_id)
        words_per_minute = prompt.speaker.words_per_minute + rng.randint(-10, 11)
        speech = speaker.speak(" ".join(self.spell(prompt)), prompt.speaker, words_per_minute)
        resampled = soxr.resample(speech, speaker.sample_rate, prompts.SAMPLE_RATE)
        return record(resampled, prompts.SAMPLE_RATE, prompt.speaker, rng)


def make_voice(variant: str, seed: int, number: int = 1) -> Voice:
    """Makes a random voice from a variant; `number` (1, 2, ...) distinguishes voices of the same variant."""
    name = variant if number == 1 else f"{variant}-{number}"
    rng = prompts.random_state(seed, name)
    return Voice(
        name=name,
        variant=variant,
        words_per_minute=int(rng.randint(155, 215)),
        pitch=int(rng.randint(38, 63)),
        pitch_range=int(rng.randint(42, 65)),
        level_db=float(rng.uniform(2, 20)),
        noise_db=float(rng.uniform(18, 35)) if rng.uniform() < 0.5 else None,
    )


def record(speech: np.ndarray, sample_rate: int, voice: Voice, rng: np.random.RandomState) -> np.ndarray:
    """Adds random silence before and after speech, float32 [num_samples], and noise; sets the voice's level.

    Returns float32 [num_samples + silence], within [-1, 1].
    """
    before, after = (rng.uniform(0.05, 0.3, size=2) * sample_rate).astype(int)
    padded = np.pad(speech, (before, after))
    if voice.noise_db is not None:
        noise = _pink_noise(len(padded), rng)
        padded = padded + noise * np.std(speech, dtype=np.float64) * 10 ** (-voice.noise_db / 20)
    peak = 10 ** (-voice.level_db / 20)
    return (padded * peak / np.max(np.abs(padded))).astype(np.float32)


def _pink_noise(num_samples: int, rng: np.random.RandomState) -> np.ndarray:
    """Returns noise with an RMS of 1 and a spectrum that, as in room noise, falls by 3 dB per octave."""
    spectrum = np.fft.rfft(rng.standard_normal(num_samples))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), num_samples)
    return noise / np.std(noise)


def _damaged(problem: str) -> errors.UserError:
    return errors.UserError(
        f"synthesise: {problem}, so espeakng-loader is damaged; "
        f"run: pip install --force-reinstall --no-deps {_WHEEL}"
    )


class EspeakSynthesiser:
    """eSpeak NG's library, which speaks Mandarin pinyin; there can be only one instance per process.

    The constructor and `speak` raise errors.UserError if the library or its data are missing or damaged.
    """

    def __init__(self):
        import espeakng_loader

        try:
            self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        except OSError as error:
            raise _damaged(f"eSpeak NG cannot be loaded ({error})") from error
        data_path = espeakng_loader.get_data_path()
        self.sample_rate = self._library.espeak_Initialize(
            _SYNCHRONOUS_TO_CALLBACK, 0, data_path.encode(), _DO_NOT_EXIT_ON_ERROR
        )
        if self.sample_rate <= 0:
            raise _damaged(
                f"eSpeak NG cannot start with the data in {data_path} (sample rate {self.sample_rate})"
            )
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))  # the seed is the time of day by default
        self._chunks: list[np.ndarray] = []
        self._callback = _CALLBACK(self._collect)  # stored, because the library does not keep it alive
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, pinyin: str, voice: Voice, words_per_minute: int) -> np.ndarray:
        """Synthesises an utterance; returns float32 [num_samples] in [-1, 1] at `self.sample_rate`.

        `pinyin` consists of toned syllables, joined within each word; words are separated by spaces. The
        level, noise and words_per_minute of the voice are not used.
        """
        name = f"cmn-latn-pinyin+{voice.variant}"
        if self._library.espeak_SetVoiceByName(name.encode()) != 0:
            raise _damaged(f"eSpeak NG has no voice {name}")
        volume = 60  # some variants clip at 100
        parameters = {_SPEED: words_per_minute, _VOLUME: volume, _PITCH: voice.pitch}
        for parameter, value in {**parameters, _PITCH_RANGE: voice.pitch_range}.items():
            self._library.espeak_SetParameter(parameter, value, 0)
        self._chunks.clear()
        text = pinyin.encode() + b"\0"
        self._library.espeak_Synth(text, len(text), 0, _BY_CHARACTER, 0, _UTF8_TEXT, None, None)
        return np.concatenate(self._chunks).astype(np.float32) / 32768

    def _collect(self, samples, num_samples: int, _events) -> int:
        if samples and num_samples > 0:
            self._chunks.append(np.ctypeslib.as_array(samples, (num_samples,)).copy())
        return 0
