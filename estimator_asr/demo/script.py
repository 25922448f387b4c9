"""Plan of the synthesised corpus: sentences and voices of all recordings, a pure function of the settings.

Training sentences are sampled with replacement, so a frequent one is read by several voices. The sentences
of dev and test are distinct and occur nowhere in training (neither spoken nor in the text of the language
model), but all their syllables and hanzi do; their voices occur in no other split.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from estimator_asr.demo import grammar
from tfrecord_builder import errors
from tfrecord_builder.settings import config_flags
from tfrecord_builder.synthesis import prompts, voices

Sentence = tuple[str, ...]  # words

_MAX_SAMPLES = 500_000


@dataclasses.dataclass(frozen=True)
class SynthesisConfig(config_flags.Checked):
    """Size of the corpus. The defaults give about 2.7 hours of speech by 48 voices."""

    num_train: int = config_flags.setting(3600, "training recordings", minimum=1)
    num_dev: int = config_flags.setting(80, "dev recordings", minimum=1)
    num_test: int = config_flags.setting(120, "test recordings", minimum=1)
    num_train_voices: int = config_flags.setting(
        len(voices.VARIANTS["train"]), "voices in training", minimum=1, maximum=len(voices.VARIANTS["train"])
    )
    min_occurrences: int = config_flags.setting(
        3, "minimum occurrences in training of each reading of each hanzi in dev and test", minimum=1
    )
    num_text_sentences: int = config_flags.setting(
        6000, "distinct training sentences of the text corpus", minimum=1
    )
    synthesis_seed: int = config_flags.setting(1, "random seed of sentences, voices and noise", minimum=0)


@dataclasses.dataclass(frozen=True)
class Plan:
    """All prompts, and the sentences of the text corpus per split."""

    prompts: tuple[prompts.Prompt, ...]
    text: dict[str, tuple[Sentence, ...]]


def make_plan(config: SynthesisConfig) -> Plan:
    """Returns the plan; raises errors.UserError if the grammar or the training split is too small for it."""
    rng = random.Random(config.synthesis_seed)
    samples = (grammar.sample_sentence(rng) for _ in itertools.count())
    train = [next(samples) for _ in range(config.num_train)]
    is_covered = _coverage(train, config.min_occurrences)
    dev = _sample_distinct(samples, config.num_dev, is_covered, set(train), "--num_dev")
    test = _sample_distinct(samples, config.num_test, is_covered, {*train, *dev}, "--num_test")
    spoken = list(dict.fromkeys(train))[: config.num_text_sentences]
    num_unspoken = config.num_text_sentences - len(spoken)
    excluded = {*dev, *test, *spoken}
    unspoken = _sample_distinct(samples, num_unspoken, lambda _: True, excluded, "--num_text_sentences")
    seed = config.synthesis_seed
    planned = [
        *_assign("train", train, voices.VARIANTS["train"][: config.num_train_voices], seed),
        *_assign("dev", dev, voices.VARIANTS["dev"], seed),
        *_assign("test", test, voices.VARIANTS["test"], seed),
    ]
    return Plan(tuple(planned), {"train": (*spoken, *unspoken), "dev": tuple(dev), "test": tuple(test)})


def _sample_distinct(samples, count, is_allowed, excluded, flag):
    chosen: dict[Sentence, None] = {}
    for _ in range(_MAX_SAMPLES):
        if len(chosen) >= count:
            return list(chosen)
        sentence = next(samples)
        if sentence not in excluded and is_allowed(sentence):
            chosen[sentence] = None
    raise errors.UserError(
        f"{flag}: the grammar produced {len(chosen)} suitable sentences, expected {count}; "
        "give a smaller number, raise --num_train, or lower --min_occurrences."
    )


def _coverage(train: Sequence[Sentence], min_occurrences: int) -> Callable[[Sentence], bool]:
    """Returns a test whether training has every reading of every hanzi of a sentence often enough."""
    counts = collections.Counter(reading for sentence in train for reading in _readings(sentence))
    return lambda sentence: all(counts[reading] >= min_occurrences for reading in _readings(sentence))


def _readings(sentence: Sentence) -> Iterator[tuple[str, str]]:
    for word in sentence:
        yield from zip(word, grammar.read(word))


def _assign(split: str, sentences: Sequence[Sentence], variants: Sequence[str], seed: int):
    speakers = [voices.make_voice(variant, seed) for variant in variants]
    for i, words in enumerate(sentences):
        pinyin = tuple(grammar.read_words(words))
        yield prompts.Prompt(f"{split}-{i:04d}", split, speakers[i % len(speakers)], (words,), pinyin)
