"""Prompts, the utterances to synthesise, and the base class of speech synthesisers."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from tfrecord_builder.tokens import syllables

SAMPLE_RATE = 16000


@dataclasses.dataclass(frozen=True)
class Prompt:
    """One utterance to synthesise."""

    utterance_id: str
    split: str
    speaker: Any  # of Engine.make_speakers; has a name, and its repr has all of its settings
    phrases: tuple[tuple[str, ...], ...]  # the characters in words; there is a pause between two phrases
    pinyin: tuple[str, ...]  # the label: a toned syllable for each hanzi, and Latin letters

    def recording(self, output_dir: str) -> str:
        """Returns the path of its WAV file in the directory of the corpus."""
        return os.path.join(output_dir, "wav", self.speaker.name, f"{self.utterance_id}.wav")


class Engine:
    """Base of a speech synthesiser, which goes to other processes. Subclasses have:

    library: the package that synthesises; every worker must have the same version of it.
    prompts_per_process: how many prompts of a speaker a process synthesises; for the same bytes, all again.
    default_prefix: of the names of voices without a foreign accent.
    list_voices(): the names of all voices.
    make_speakers(voices, count): speakers made of these voices, fewer than count if there are no more.
    pronounce(words, tokens): the input of the engine for each token of a phrase.
    open(): a function from a prompt to float32 [num_samples] at SAMPLE_RATE.
    """

    def speaks(self, token: str) -> bool:
        """Returns whether this can be part of a prompt's pinyin."""
        return syllables.exists(token)

    def spell(self, prompt: Prompt) -> list[str]:
        """Returns the input of the engine for each word, with a comma at each pause."""
        tokens, spelled = iter(prompt.pinyin), []
        for phrase in prompt.phrases:
            words = [word for word in phrase if word.strip()]  # a space between Latin words is no sound
            if spelled:
                spelled[-1] += ","
            sounds = iter(self.pronounce(words, list(itertools.islice(tokens, len("".join(words))))))
            spelled += ["".join(itertools.islice(sounds, len(word))) for word in words]
        return spelled


def fingerprint(prompts: Iterable[Prompt], engine: Engine) -> str:
    """Returns a digest of everything that is heard: speaker, words and pronunciation of each recording."""
    heard = ((each.utterance_id, each.speaker, *each.phrases, engine.spell(each)) for each in prompts)
    return hashlib.sha256("".join(map(repr, heard)).encode()).hexdigest()[:16]


def random_state(seed: int, name: str) -> np.random.RandomState:
    """Returns a generator for a name; RandomState gives the same numbers in every version of numpy."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return np.random.RandomState(int.from_bytes(digest[:4], "little"))
