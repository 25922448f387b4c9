"""Data of the GPU check: each syllable has its own tone, so that models learn a little in 50 steps."""

from __future__ import annotations

import os
import random
from typing import NamedTuple

import numpy as np
import soundfile

# Two hanzi with the same reading, between which the language model chooses by the preceding syllable.
_SYLLABLES = {
    **{"yi1": "一医", "er4": "二贰", "san1": "三叁", "si4": "四寺", "wu3": "五午"},
    **{"liu4": "六遛", "qi1": "七妻", "ba1": "八巴", "jiu3": "九久", "shi2": "十石"},
}
_SAMPLE_RATE = 16000
_SECONDS = 0.2  # duration of a syllable
_NUM_DEV = 8


class Corpus(NamedTuple):
    """A synthetic corpus: a tone per syllable, or noise, whose transcripts a model can only memorise."""

    num_train: int  # utterances
    num_syllables: tuple[int, int]  # minimum and maximum per utterance
    is_noise: bool = False


CORPORA = {
    "data": Corpus(96, (3, 8)),
    "long_data": Corpus(87, (23, 23), is_noise=True),  # a batch of flags/aishell1: 40,000 frames
}


def write_corpus(directory: str, corpus: Corpus) -> None:
    """Writes recordings and their manifest; the same files on every machine."""
    rng = random.Random(1)
    lines = ["id\taudio\tspeaker\ttext\tpinyin\tsplit"]
    for split, number in {"train": corpus.num_train, "dev": _NUM_DEV}.items():
        for i in range(number):
            name = f"{split}{i:02d}"
            pinyin = rng.choices(list(_SYLLABLES), k=rng.randint(*corpus.num_syllables))
            samples = _speak(pinyin)
            if corpus.is_noise:
                samples = np.random.default_rng(len(lines)).uniform(-0.3, 0.3, len(samples))
            soundfile.write(os.path.join(directory, f"{name}.wav"), samples, _SAMPLE_RATE)
            lines.append(f"{name}\t{name}.wav\t{split}\t{_write(pinyin)}\t{' '.join(pinyin)}\t{split}")
    with open(os.path.join(directory, "manifest.tsv"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def _write(pinyin):
    before = ["", *pinyin]
    return "".join(_SYLLABLES[each][last in ("", "yi1", "san1", "wu3")] for last, each in zip(before, pinyin))


def _speak(pinyin):
    """Returns float32 [num_samples], a tone between 200 and 1,550 Hz for each syllable."""
    seconds = np.arange(int(_SECONDS * _SAMPLE_RATE)) / _SAMPLE_RATE
    hz = [200 + 150 * list(_SYLLABLES).index(each) for each in pinyin]
    return np.concatenate([0.3 * np.sin(2 * np.pi * each * seconds) for each in hz]).astype(np.float32)
