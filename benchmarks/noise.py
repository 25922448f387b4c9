"""Measures how much text a model outputs for audio without words: noise, hum, music and babble.

    python -m benchmarks.noise --saved_model=EXPORT --data_dir=DATA[,DATA...] [--minutes=60]

Each kind has the same share of the time, in items of 1 to 15 s:

    white, pink, brown   Gaussian noise whose power is divided by the frequency to the power of 0, 1 and 2
    hum                  39 harmonics of 50 or 60 Hz, and white noise
    music                chords and a melody of decaying harmonics, two drums
    babble               8 to 12 voices at once, at the same level, from the dev recordings of DATA; pauses
                         are removed, because fewer voices would speak in them

Levels are -45 to -12 dBFS (RMS). In every tenth item, the middle third is digital silence; another tenth is
clipped. Prints characters per minute, and the highest confidence of an item and of a character. The bars: at
most one character per minute, and no item with a confidence above 0.5. A missed bar is marked FAIL, and the
exit code is then 1.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np
import tensorflow as tf
import tqdm

from benchmarks import bars
from estimator_asr.exporting.saved_model import recogniser
from tfrecord_builder import errors
from tfrecord_builder.building import shard_writer, sharding
from tfrecord_builder.program import config_flags, program

RATE = 16000
MIN_SECONDS, MAX_SECONDS = 1.0, 15.0
MIN_VOICES, MAX_VOICES = 8, 12
_BATCH_SIZE = 8
_FRAME = RATE // 50  # samples
_PAUSE_DB = -25.0  # a pause is a frame below this, relative to the level that 5 % of the frames exceed
_SCALE = np.array([0, 2, 4, 5, 7, 9, 11, 12, 14, 16, 17])  # semitones of a major scale, and its chords
_MAX_ITEM_CONFIDENCE, _MAX_PER_MINUTE = 0.5, 1.0

Maker = Callable[[np.random.Generator, int], np.ndarray]  # returns float64 [num_samples] at any level


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, and the noise."""

    saved_model: str = config_flags.setting(
        "", "export directory, or one version in it", required=True, local=True
    )
    data_dir: tuple[str, ...] = config_flags.setting(
        (), "data directories with dev recordings for the babble", required=True
    )
    minutes: float = config_flags.setting(60.0, "total duration of all kinds", positive=True)
    seed: int = config_flags.setting(1, "random seed")


class Noise(NamedTuple):
    """An item: its kind and its samples, float32 [num_samples]."""

    kind: str
    waveform: np.ndarray


class Written(NamedTuple):
    """The confidences of an item and of its characters."""

    kind: str
    seconds: float
    confidence: float
    confidences: list[float]  # one per character


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bars; returns 1 if a bar is missed."""
    tf.get_logger().setLevel("ERROR")
    model = recogniser.load(recogniser.find_version(config.saved_model), "waveform")
    makers = {**MAKERS, "babble": make_babble(read_voices(config.data_dir))}
    written = recognise(model, make_items(makers, 60 * config.minutes, config.seed))
    print("| kind | minutes | characters per minute | highest confidence | of a character |")
    print("| --- | --- | --- | --- | --- |")
    for kind in (*makers, "all"):
        minutes, per_minute, *highest = measure([each for each in written if kind in (each.kind, "all")])
        print(f"| {kind} | {minutes:.1f} | {per_minute:.2f} | {highest[0]:.2f} | {highest[1]:.2f} |")
    return bars.show(
        [
            bars.Bar("characters per minute", per_minute, maximum=_MAX_PER_MINUTE),
            bars.Bar("highest confidence", highest[0], maximum=_MAX_ITEM_CONFIDENCE),
        ]
    )


def measure(written: Sequence[Written]) -> tuple[float, float, float, float]:
    """Returns minutes, characters per minute, and the highest confidences of an item and a character."""
    minutes = sum(each.seconds for each in written) / 60
    confidences = [confidence for each in written for confidence in each.confidences]
    highest = max(each.confidence for each in written)
    return minutes, len(confidences) / minutes, highest, max(confidences, default=0.0)


def recognise(model: recogniser.Recogniser, items: Iterable[Noise]) -> list[Written]:
    """Recognises items in batches of similar lengths."""
    ordered, written = sorted(items, key=lambda each: len(each.waveform)), []
    for begin in tqdm.tqdm(range(0, len(ordered), _BATCH_SIZE), unit=" batches", disable=None):
        batch = ordered[begin : begin + _BATCH_SIZE]
        lengths = np.int32([len(each.waveform) for each in batch])
        padded = np.stack([np.pad(each.waveform, (0, lengths[-1] - len(each.waveform))) for each in batch])
        outputs = model.run({"waveform": padded, "num_samples": lengths})
        for each, confidence, characters in zip(batch, outputs["confidence"], outputs["characters"]):
            confidences = [character["confidence"] for character in characters]
            written.append(Written(each.kind, len(each.waveform) / RATE, confidence, confidences))
    return written


def make_items(makers: Mapping[str, Maker], seconds: float, seed: int) -> list[Noise]:
    """Returns items of all kinds; each kind has the same share of the seconds."""
    rng, items = np.random.default_rng(seed), []
    for kind, make in makers.items():
        left = int(RATE * seconds / len(makers))
        while left > 0:
            num_samples = min(left, int(RATE * rng.uniform(MIN_SECONDS, MAX_SECONDS)))
            items.append(Noise(kind, _finish(rng, make(rng, num_samples), len(items))))
            left -= num_samples
    return items


def _finish(rng: np.random.Generator, samples: np.ndarray, index: int) -> np.ndarray:
    """Returns samples at a random level, float32 in [-1, 1]; some items are partly silent or clipped."""
    level = 10 ** (rng.uniform(-45, -12) / 20)
    samples = samples * (level / np.sqrt(np.mean(np.square(samples))))
    if index % 10 == 0:
        samples[len(samples) // 3 : 2 * len(samples) // 3] = 0.0
    if index % 10 == 5:
        samples = samples * (20 / np.max(np.abs(samples)))
    return np.clip(samples, -1, 1).astype(np.float32)


def white(rng: np.random.Generator, num_samples: int) -> np.ndarray:
    return rng.normal(size=num_samples)


def coloured(rng: np.random.Generator, num_samples: int, power: int) -> np.ndarray:
    """Returns noise whose power falls with the frequency to the given power: 1 for pink, 2 for brown."""
    hz = np.maximum(np.fft.rfftfreq(num_samples, 1 / RATE), 20)
    return np.fft.irfft(np.fft.rfft(white(rng, num_samples)) * hz ** (-power / 2), num_samples)


def hum(rng: np.random.Generator, num_samples: int) -> np.ndarray:
    hz, samples = rng.choice([50, 60]), 0.02 * white(rng, num_samples)
    for number in range(1, 40):
        phases = 2 * np.pi * (hz * number / RATE * np.arange(num_samples) + rng.uniform())
        samples += rng.uniform() / number * np.sin(phases)
    return samples


def music(rng: np.random.Generator, num_samples: int) -> np.ndarray:
    beat, root = int(RATE * rng.uniform(0.25, 0.6)), rng.integers(40, 60)
    samples = np.zeros(num_samples + 4 * RATE)
    for number, start in enumerate(range(0, num_samples, beat)):
        sounds = [_tone(rng, root + 12 + rng.choice(_SCALE), 3.0), _drum(rng, white(rng, RATE // 5))]
        if number % 2 == 0:
            sounds.append(_drum(rng, np.sin(0.02 * np.arange(RATE // 3))))
        if number % 4 == 0:
            sounds += [_tone(rng, root + _SCALE[rng.integers(7) + third], 1.0) for third in (0, 2, 4)]
        for sound in sounds:
            samples[start : start + len(sound)] += sound
    return samples[:num_samples]


def _tone(rng: np.random.Generator, note: int, decay: float) -> np.ndarray:
    """Returns 3 s of a note (69 is 440 Hz), whose 8 harmonics decay, the higher ones faster."""
    hz, seconds = 440 * 2 ** ((note - 69) / 12), np.arange(3 * RATE) / RATE
    number = np.arange(1, 9)[:, None]
    waves = np.sin(2 * np.pi * (hz * number * seconds + rng.uniform(size=[8, 1])))
    fading = np.exp(-decay * (1 + 0.3 * number) * seconds)
    return np.sum(rng.uniform(0.3, 1, [8, 1]) / number * waves * fading, axis=0)


def _drum(rng: np.random.Generator, samples: np.ndarray) -> np.ndarray:
    return samples * np.exp(-rng.uniform(20, 60) * np.arange(len(samples)) / RATE)


MAKERS: dict[str, Maker] = {
    "white": white,
    "pink": functools.partial(coloured, power=1),
    "brown": functools.partial(coloured, power=2),
    "hum": hum,
    "music": music,
}


def read_voices(data_dirs: Sequence[str]) -> list[list[np.ndarray]]:
    """Returns each speaker's dev recordings without pauses; raises errors.UserError if there are none."""
    voices = collections.defaultdict(list)
    for data_dir in data_dirs:
        for shard in sorted(glob.glob(os.path.join(glob.escape(data_dir), "dev-*.tfrecord"))):
            for item in sharding.read_items(shard):
                waveform = drop_pauses(shard_writer.read_waveform(item.utterance, RATE, MAX_SECONDS))
                if len(waveform):
                    voices[item.utterance.speaker].append(waveform / np.sqrt(np.mean(waveform**2)))
    if not voices:
        raise errors.UserError(
            f"--data_dir={','.join(data_dirs)} has no dev recordings; pass data with a dev split"
        )
    return list(voices.values())


def drop_pauses(waveform: np.ndarray) -> np.ndarray:
    """Removes 20 ms frames that are pauses; keeps a third of a recording of words, and no silence."""
    padded = np.pad(waveform, (0, -len(waveform) % _FRAME)).reshape(-1, _FRAME)
    levels = np.sqrt(np.mean(np.square(padded), axis=1))
    return padded[levels > 10 ** (_PAUSE_DB / 20) * np.percentile(levels, 95)].ravel()


def make_babble(voices: Sequence[list[np.ndarray]]) -> Maker:
    """Returns a function that mixes 8 to 12 voices, of different speakers if there are enough."""

    def babble(rng: np.random.Generator, num_samples: int) -> np.ndarray:
        count, samples = rng.integers(MIN_VOICES, MAX_VOICES + 1), np.zeros(num_samples)
        for place in rng.permutation(np.arange(max(count, len(voices))) % len(voices))[:count]:
            samples += _speak(rng, voices[place], num_samples)
        return samples

    return babble


def _speak(rng: np.random.Generator, recordings: list[np.ndarray], num_samples: int) -> np.ndarray:
    """Joins recordings of one speaker, beginning at a random place in the first recording."""
    first = recordings[rng.integers(len(recordings))]
    parts = [first[rng.integers(len(first)) :]]
    while sum(map(len, parts)) < num_samples:
        parts.append(recordings[rng.integers(len(recordings))])
    return np.concatenate(parts)[:num_samples]


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
