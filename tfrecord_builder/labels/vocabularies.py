"""Vocabularies of a build: tokens, characters, and readings (the characters that each token can stand for).

Vocabularies come from the train split, or from an earlier build or model. Earlier vocabularies are used
unchanged (frozen) or extended with labels from the train split.
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, manifest, readings, vocabulary
from tfrecord_builder.labels import labelling, subwords
from tfrecord_builder.program import config_flags, config_json
from tfrecord_builder.storage import files

_TOKEN_TYPE_FILES = (dataset_info.INFO_FILE, "config.json")  # files in data and model directories


@dataclasses.dataclass(frozen=True)
class VocabularyConfig(config_flags.Checked):
    """Settings for the source of the vocabularies, which is the train split by default."""

    vocabulary: str = config_flags.setting(
        "", "vocabulary file (tokens.txt) to use instead of the tokens in the train split"
    )
    vocabulary_dir: str = config_flags.setting(
        "",
        "data or model directory whose tokens.txt, characters.txt, readings.tsv and bpe.model are used",
    )
    extend_vocabulary: bool = config_flags.setting(
        False,
        "append labels from the train split that are missing from the vocabulary in --vocabulary or "
        "--vocabulary_dir",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.vocabulary and self.vocabulary_dir:
            raise errors.UserError(
                "--vocabulary and --vocabulary_dir are both set; pass only one, because the directory "
                "also contains tokens.txt."
            )
        if self.extend_vocabulary and not (self.vocabulary or self.vocabulary_dir):
            raise errors.UserError(
                "--extend_vocabulary: there is no vocabulary to extend; pass --vocabulary_dir=DIR or "
                "--vocabulary=FILE, or leave --extend_vocabulary out."
            )


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """Tokens for the acoustic model, characters for the language model, and the readings that pair them."""

    tokens: vocabulary.Vocabulary
    characters: vocabulary.Vocabulary
    readings: readings.Readings
    # SentencePiece model that splits transcripts into tokens; None unless the token type is bpe.
    bpe: Optional[bytes] = None

    def save(self, directory: str) -> None:
        """Writes tokens.txt, characters.txt and readings.tsv, and bpe.model if the token type is bpe."""
        self.tokens.save(os.path.join(directory, dataset_info.TOKENS_FILE))
        self.characters.save(os.path.join(directory, dataset_info.CHARACTERS_FILE))
        self.readings.save(os.path.join(directory, dataset_info.READINGS_FILE))
        if self.bpe is not None:
            path = os.path.join(directory, dataset_info.BPE_FILE)
            with files.writing(path) as temporary, open(temporary, "wb") as file:
                file.write(self.bpe)


class Collector:
    """Counts a corpus's labels; its memory use grows with the vocabulary, not with the corpus."""

    def __init__(self, config: labelling.LabelConfig):
        self.config = config
        self.tokens: collections.Counter[str] = collections.Counter()  # all splits
        self.characters: collections.Counter[str] = collections.Counter()  # all splits
        self.training_tokens: set[str] = set()  # train split
        self.training_characters: set[str] = set()  # train split
        self.pairs: dict[str, set[str]] = {}  # train split: characters for each token
        self.left_out: collections.Counter[str] = collections.Counter()  # see normalisation.count_left_out

    def add(self, labels: labelling.Labels, split: str) -> None:
        """Counts the labels of one utterance."""
        self.tokens.update(labels.tokens)
        self.characters.update(labels.characters)
        if split == "train":
            self.training_tokens.update(labels.tokens)
            self.training_characters.update(labels.characters)
            for token, character in zip(labels.tokens, labels.characters):
                self.pairs.setdefault(token, set()).add(character)

    def to_json(self) -> dict:
        return {
            "tokens": self.tokens,
            "characters": self.characters,
            "training_tokens": sorted(self.training_tokens),
            "training_characters": sorted(self.training_characters),
            "pairs": {token: sorted(characters) for token, characters in self.pairs.items()},
            "left_out": self.left_out,
        }

    def merge(self, counts: dict) -> None:
        """Adds the counts of another collector."""
        for name in ("tokens", "characters", "training_tokens", "training_characters", "left_out"):
            getattr(self, name).update(counts[name])
        for token, characters in counts["pairs"].items():
            self.pairs.setdefault(token, set()).update(characters)


def check_token_type(directory: str, token_type: str) -> None:
    """Raises errors.UserError if a data or model directory uses a different token type."""
    for path in (os.path.join(directory, name) for name in _TOKEN_TYPE_FILES):
        if not files.exists(path):
            continue
        try:
            saved = config_json.parse(files.read_text(path))["token_type"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise errors.UserError(
                f"--vocabulary_dir: the token_type in {path} cannot be read ({error!r}); pass a data or "
                "model directory, or --vocabulary=FILE."
            ) from error
        if saved != token_type:
            raise errors.UserError(
                f"--vocabulary_dir: the token_type in {path} is {saved}, but this build uses {token_type}; "
                f"pass --token_type={saved} or another directory."
            )


def make_subwords(
    label_config: labelling.LabelConfig, config: VocabularyConfig, training: Iterable[manifest.Utterance]
) -> Optional[bytes]:
    """Reads or learns the SentencePiece model for the token type bpe; returns None for other token types.

    Raises errors.UserError if the frozen vocabulary has no model, or if no model can be learned.
    """
    if label_config.token_type != "bpe":
        return None
    if config.vocabulary:
        raise errors.UserError(
            "--vocabulary, --token_type=bpe: tokens.txt alone is not enough to split transcripts into "
            "subwords; pass --vocabulary_dir=DIR, where DIR also contains bpe.model."
        )
    if not config.vocabulary_dir:
        transcripts = (labelling.make_transcript(utterance, label_config) for utterance in training)
        return subwords.train(transcripts, label_config.bpe_vocab_size)
    path = os.path.join(config.vocabulary_dir, dataset_info.BPE_FILE)
    try:
        with files.open_binary(path) as file:
            return file.read()
    except OSError as error:
        raise errors.UserError(
            f"--vocabulary_dir: {path} cannot be read ({error.strerror}); pass a directory that was built "
            "with --token_type=bpe."
        ) from None


def make(collector: Collector, config: VocabularyConfig, bpe_model: Optional[bytes] = None) -> Vocabularies:
    """Returns the vocabularies for a build; vocabularies that are not frozen come from the train split.

    config.vocabulary_dir may lack characters and readings, because models that output tokens have neither.
    Raises errors.UserError if there is neither a train split nor a frozen vocabulary, or if the file with
    the frozen vocabulary is missing.
    """
    directory = config.vocabulary_dir
    tokens_file = os.path.join(directory, dataset_info.TOKENS_FILE) if directory else config.vocabulary
    characters_file = _find(directory, dataset_info.CHARACTERS_FILE)
    if characters_file and not collector.tokens:  # a punctuation model has no tokens.txt
        tokens_file = _find(directory, dataset_info.TOKENS_FILE)
    has_training = collector.training_tokens or collector.training_characters
    if not (tokens_file or characters_file or has_training):
        raise errors.UserError(
            "--corpus_dir: there is no usable train split to make the vocabulary from; add a train split, or "
            "pass --vocabulary_dir=DIR to reuse the vocabulary of an earlier build or a model."
        )
    # Subwords that do not occur in the train split are tokens too, because other texts may contain them.
    learned = subwords.SubwordModel(bpe_model).list_subwords() if bpe_model else set()
    tokens = _make_vocabulary(tokens_file, collector.training_tokens | learned, config.extend_vocabulary)
    characters = _make_vocabulary(characters_file, collector.training_characters, config.extend_vocabulary)
    return Vocabularies(tokens, characters, _make_readings(collector, characters, config), bpe_model)


def most_frequent_unknown(
    counts: Mapping[str, int], saved: vocabulary.Vocabulary, limit: int
) -> list[tuple[str, int]]:
    """Returns up to `limit` tokens that are not in `saved`, with their counts, most frequent first."""
    unknown = [(token, count) for token, count in counts.items() if saved.count_unknown([token])]
    return sorted(unknown, key=lambda pair: (-pair[1], pair[0]))[:limit]


def _make_vocabulary(path: str, training: Iterable[str], is_extended: bool) -> vocabulary.Vocabulary:
    if not path:
        return vocabulary.Vocabulary.build([training])
    frozen = vocabulary.Vocabulary.load(path)
    return frozen.extended(training) if is_extended else frozen


def _make_readings(
    collector: Collector, characters: vocabulary.Vocabulary, config: VocabularyConfig
) -> readings.Readings:
    """Returns the characters for each token, from the frozen readings, the train split and the dictionary."""
    path = _find(config.vocabulary_dir, dataset_info.READINGS_FILE)
    frozen = readings.Readings.load(path) if path else readings.Readings({})
    if path and not config.extend_vocabulary:
        return frozen
    pairs = collections.defaultdict(set)
    for token, token_characters in (*frozen.pairs.items(), *collector.pairs.items()):
        pairs[token].update(token_characters)
    for character in characters.tokens:
        for token in labelling.dictionary_tokens(character, collector.config):
            pairs[token].add(character)
    return readings.Readings({token: "".join(characters) for token, characters in pairs.items()})


def _find(directory: str, name: str) -> str:
    path = os.path.join(directory, name)
    return path if directory and files.exists(path) else ""
