"""Samples the demo's sentences: the sentences to synthesise, and the text for the other models.

    python -m estimator_asr.demo.sentences --output_dir=demo/sentences

Writes spoken/ for `synthesise` and written/ for `build --corpus=text`, each containing {train,dev,test}.tsv
with the columns hanzi (with punctuation marks) and pinyin, and punctuated/ for `build --corpus=punctuated`,
with paragraphs in {train,dev,test}.txt. A train sentence is spoken as often as it is sampled, so frequent
sentences are spoken by several voices; they are also frequent in punctuated/, which contains the spoken and
the written train sentences. The sentences in dev and test are distinct and do not occur in train, but train
contains all their syllables and hanzi.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import collections
import dataclasses
import itertools
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from estimator_asr.demo import grammar
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program
from tfrecord_builder.storage import files

Sentence = tuple[str, ...]  # words and marks

_MAX_SAMPLES = 500_000
_SENTENCES_PER_PARAGRAPH = 5


@dataclasses.dataclass(frozen=True)
class SentencesConfig(config_flags.Checked):
    """The output directory and the number of sentences. The defaults yield about 2.6 hours of speech."""

    output_dir: str = config_flags.setting("", "directory to write to", required=True, local=True)
    num_train: int = config_flags.setting(3600, "number of spoken train sentences", minimum=1)
    num_dev: int = config_flags.setting(80, "number of dev sentences", minimum=1)
    num_test: int = config_flags.setting(120, "number of test sentences", minimum=1)
    min_occurrences: int = config_flags.setting(
        3, "minimum number of times that train contains each reading of each hanzi in dev and test", minimum=1
    )
    num_text_sentences: int = config_flags.setting(
        6000,
        "number of distinct train sentences in the text for the language model and the punctuation model",
        minimum=1,
    )
    sampling_seed: int = config_flags.setting(1, "random seed for the sentences", minimum=0)


def main(config: SentencesConfig) -> None:
    """Writes the spoken and the written sentences, and prints the number of sentences in each split."""
    spoken, written = sample(config)
    punctuated = {**written, "train": [*spoken["train"], *written["train"]]}
    for name, splits, write in (
        ("spoken", spoken, _write_tables),
        ("written", written, _write_tables),
        ("punctuated", punctuated, _write_paragraphs),
    ):
        directory = os.path.join(config.output_dir, name)
        os.makedirs(directory, exist_ok=True)
        write(directory, splits)
        counts = (f"{split} {len(sentences)}" for split, sentences in splits.items())
        print(f"{directory}: {', '.join(counts)}")


def sample(config: SentencesConfig) -> tuple[dict[str, list[Sentence]], dict[str, list[Sentence]]]:
    """Returns the spoken and the written sentences, both keyed by split.

    Raises errors.UserError if the grammar or train is too small to provide the requested sentences.
    """
    rng = random.Random(config.sampling_seed)
    samples = (grammar.sample_sentence(rng) for _ in itertools.count())
    train = [next(samples) for _ in range(config.num_train)]
    is_covered = _coverage(train, config.min_occurrences)
    dev = _sample_distinct(samples, config.num_dev, is_covered, set(train), "--num_dev")
    test = _sample_distinct(samples, config.num_test, is_covered, {*train, *dev}, "--num_test")
    distinct = list(dict.fromkeys(train))[: config.num_text_sentences]
    num_unspoken, excluded = config.num_text_sentences - len(distinct), {*dev, *test, *distinct}
    unspoken = _sample_distinct(samples, num_unspoken, lambda _: True, excluded, "--num_text_sentences")
    held_out = {"dev": dev, "test": test}
    return {"train": train, **held_out}, {"train": [*distinct, *unspoken], **held_out}


def _sample_distinct(samples, count, is_allowed, excluded, flag):
    chosen: dict[Sentence, None] = {}
    for _ in range(_MAX_SAMPLES):
        if len(chosen) >= count:
            return list(chosen)
        sentence = next(samples)
        if sentence not in excluded and is_allowed(sentence):
            chosen[sentence] = None
    raise errors.UserError(
        f"{flag}: the grammar produced only {len(chosen)} suitable sentences, but {count} are needed; "
        "choose a smaller number, raise --num_train, or lower --min_occurrences."
    )


def _coverage(train: Sequence[Sentence], min_occurrences: int) -> Callable[[Sentence], bool]:
    """Returns a function that checks whether all readings in a sentence occur often enough in train."""
    counts = collections.Counter(reading for sentence in train for reading in _readings(sentence))
    return lambda sentence: all(counts[reading] >= min_occurrences for reading in _readings(sentence))


def _readings(sentence: Sentence) -> Iterator[tuple[str, str]]:
    for word in sentence:
        yield from zip(word, grammar.read(word))


def _write_tables(directory: str, sentences: Mapping[str, Sequence[Sentence]]) -> None:
    for split, split_sentences in sentences.items():
        lines = (f"{''.join(words)}\t{' '.join(grammar.read_words(words))}\n" for words in split_sentences)
        files.write_text(os.path.join(directory, f"{split}.tsv"), "hanzi\tpinyin\n" + "".join(lines))


def _write_paragraphs(directory: str, sentences: Mapping[str, Sequence[Sentence]]) -> None:
    for split, split_sentences in sentences.items():
        texts = list(map("".join, split_sentences))
        starts = range(0, len(texts), _SENTENCES_PER_PARAGRAPH)
        lines = ("".join(texts[start : start + _SENTENCES_PER_PARAGRAPH]) + "\n" for start in starts)
        files.write_text(os.path.join(directory, f"{split}.txt"), "".join(lines))


if __name__ == "__main__":
    program.run(main, SentencesConfig)
