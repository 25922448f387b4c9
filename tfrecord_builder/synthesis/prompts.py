"""Prompts (utterances to synthesise) and the base class for speech synthesisers."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from tfrecord_builder.data import syllables

SAMPLE_RATE = 16000


@dataclasses.dataclass(frozen=True)
class Prompt:
    """One utterance to synthesise."""

    utterance_id: str
    split: str
    speaker: Any  # made by SpeechEngine.make_speakers; has a name, and a repr that shows all settings
    phrases: tuple[tuple[str, ...], ...]  # the words of each phrase; there is a pause between phrases
    pinyin: tuple[str, ...]  # the labels: one toned syllable per hanzi, and Latin letters
    text: str  # transcript with its punctuation marks

    def recording(self, output_dir: str) -> str:
        """Returns the path of the prompt's WAV file in the corpus directory."""
        return os.path.join(output_dir, "wav", self.speaker.name, f"{self.utterance_id}.wav")


class SpeechEngine:
    """Base class for speech synthesisers, which are pickled for other processes. Subclasses define:

    library: the package that synthesises speech; all workers must have the same version of the package.
    prompts_per_process: number of prompts by one speaker that one process synthesises. To reproduce a
        recording, the process must repeat all of these prompts.
    default_prefix: prefix of the names of the default voices, which have no foreign accent.
    list_voices(): returns the names of all voices.
    make_speakers(voices, count): returns `count` speakers made from these voices, or as many as possible.
    pronounce(words, tokens): returns the engine's input for each token of a phrase.
    open(): returns a function that turns a prompt into float32 [num_samples] at SAMPLE_RATE.
    """

    def speaks(self, token: str) -> bool:
        """Returns True if the engine can speak a token of a prompt's pinyin."""
        return syllables.exists(token)

    def spell(self, prompt: Prompt) -> list[str]:
        """Returns the engine's input for each word of a prompt, with a comma at each pause."""
        tokens, spelled = iter(prompt.pinyin), []
        for phrase in prompt.phrases:
            words = [word for word in phrase if word.strip()]  # spaces between Latin words are silent
            if spelled:
                spelled[-1] += ","
            sounds = iter(self.pronounce(words, list(itertools.islice(tokens, len("".join(words))))))
            spelled += ["".join(itertools.islice(sounds, len(word))) for word in words]
        return spelled


def fingerprint(prompts: Iterable[Prompt], engine: SpeechEngine) -> str:
    """Returns a hex digest of what determines the recordings: ids, speakers, words and pronunciations."""
    contents = ((item.utterance_id, item.speaker, *item.phrases, engine.spell(item)) for item in prompts)
    return hashlib.sha256("".join(map(repr, contents)).encode()).hexdigest()[:16]


def random_state(seed: int, name: str) -> np.random.RandomState:
    """Returns a generator seeded with `seed` and `name`; the numbers are the same in every numpy version."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return np.random.RandomState(int.from_bytes(digest[:4], "little"))
