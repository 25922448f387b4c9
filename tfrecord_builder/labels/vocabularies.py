"""The files that number the labels: tokens, characters, and which character may stand for which token.

They come from the training split, or are taken over from an earlier build or model: as they are (frozen), or
with what the training split has besides (extended).
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from typing import Optional

from tfrecord_builder import config_flags, dataset_info, errors, files, manifest, readings, vocabulary
from tfrecord_builder.labels import bpe, labelling

_TRAIN = manifest.SPLITS[0]
_TOKEN_TYPE_FILES = (dataset_info.INFO_FILE, "config.json")  # of a data directory, of a model directory


@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
    """Where the vocabularies come from; from the train split if nothing is said."""

    vocabulary: str = config_flags.setting("", "tokens.txt to reuse, instead of the train split's tokens")
    vocabulary_dir: str = config_flags.setting(
        "",
        "data or model directory whose tokens.txt, characters.txt, readings.tsv and bpe.model to reuse",
    )
    extend_vocabulary: bool = config_flags.setting(
        False, "add what the train split has besides, behind what --vocabulary or --vocabulary_dir gives"
    )

    def __post_init__(self):
        config_flags.validate(self)
        if self.vocabulary and self.vocabulary_dir:
            raise errors.UserError(
                "--vocabulary, --vocabulary_dir: both are given, expected one; the directory has tokens too."
            )
        if self.extend_vocabulary and not (self.vocabulary or self.vocabulary_dir):
            raise errors.UserError(
                "--extend_vocabulary: there is no vocabulary to extend, expected --vocabulary_dir=DIR or "
                "--vocabulary=FILE; pass one, or leave --extend_vocabulary out."
            )


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """Tokens of the acoustic model, characters of the language model, and the readings between them.

    Attributes:
      bpe: the sentencepiece model that parts transcripts into tokens; None for another token type.
    """

    tokens: vocabulary.Vocabulary
    characters: vocabulary.Vocabulary
    readings: readings.Readings
    bpe: Optional[bytes] = None

    def save(self, directory: str) -> None:
        """Writes the three files, and bpe.model if there is one."""
        self.tokens.save(os.path.join(directory, dataset_info.TOKENS_FILE))
        self.characters.save(os.path.join(directory, dataset_info.CHARACTERS_FILE))
        self.readings.save(os.path.join(directory, dataset_info.READINGS_FILE))
        if self.bpe is not None:
            path = os.path.join(directory, dataset_info.BPE_FILE)
            with files.writing(path) as temporary, open(temporary, "wb") as file:
                file.write(self.bpe)


class Collector:
    """What the labels of a corpus hold. It grows with the vocabulary, not with the corpus.

    Attributes:
      tokens, characters: each with how often it occurs in all splits.
      training_tokens, training_characters: those of the train split.
      pairs: token to the characters that stand for it in the train split.
    """

    def __init__(self, config: labelling.LabelConfig):
        """Takes how the labels are made."""
        self.config = config
        self.tokens: collections.Counter[str] = collections.Counter()
        self.characters: collections.Counter[str] = collections.Counter()
        self.training_tokens: set[str] = set()
        self.training_characters: set[str] = set()
        self.pairs: dict[str, set[str]] = {}

    def add(self, found: labelling.Labels, split: str) -> None:
        """Counts the labels of one utterance."""
        self.tokens.update(found.tokens)
        self.characters.update(found.characters)
        if split == _TRAIN:
            self.training_tokens.update(found.tokens)
            self.training_characters.update(found.characters)
            for token, character in zip(found.tokens, found.characters):
                self.pairs.setdefault(token, set()).add(character)


def check_token_type(directory: str, token_type: str) -> None:
    """Raises UserError if a data or model directory says that its tokens are of another token type."""
    for path in (os.path.join(directory, name) for name in _TOKEN_TYPE_FILES):
        saved = _read_token_type(path) if files.exists(path) else token_type
        if saved != token_type:
            raise errors.UserError(
                f"--vocabulary_dir: {path}: token_type is {saved}, expected {token_type}, the --token_type "
                f"of this build; pass --token_type={saved}, or another directory."
            )


def load_bpe(config: VocabularyConfig, token_type: str) -> Optional[bytes]:
    """Gives the sentencepiece model that a frozen vocabulary belongs to; None if there is none to take over.

    Raises:
      UserError: the token type is bpe, and the frozen vocabulary has no such model.
    """
    if token_type != "bpe" or not (config.vocabulary or config.vocabulary_dir):
        return None
    if config.vocabulary:
        raise errors.UserError(
            "--vocabulary, --token_type=bpe: tokens alone do not part a transcript, expected bpe.model too; "
            "pass the directory of both as --vocabulary_dir."
        )
    path = os.path.join(config.vocabulary_dir, dataset_info.BPE_FILE)
    try:
        with files.open_binary(path) as file:
            return file.read()
    except OSError as error:
        raise errors.UserError(
            f"--vocabulary_dir: {path} cannot be read ({error.strerror}), expected the pieces of its tokens; "
            "pass a directory that was built with --token_type=bpe."
        ) from None


def make(collector: Collector, config: VocabularyConfig, bpe_model: Optional[bytes] = None) -> Vocabularies:
    """Gives the vocabularies of a build.

    Args:
      collector: the labels of all splits; those of the train split give whatever is not frozen.
      config: what is frozen. Of a directory, characters and readings may be missing (a model that writes
        tokens has none).
      bpe_model: what parted the transcripts, for the token type bpe.

    Raises:
      UserError: there is neither a training split nor a frozen vocabulary, or the frozen one is missing.
    """
    directory = config.vocabulary_dir
    tokens_file = os.path.join(directory, dataset_info.TOKENS_FILE) if directory else config.vocabulary
    if not tokens_file and not collector.training_tokens:
        raise errors.UserError(
            "--corpus_dir: it has no usable train split, which gives the vocabulary, expected one; "
            "add it, or pass --vocabulary_dir=DIR to reuse the vocabulary of an earlier build or a model."
        )
    characters_file = _existing(directory, dataset_info.CHARACTERS_FILE)
    # Pieces that no transcript of the train split is parted into are tokens too: other texts are.
    learnt = collector.training_tokens | (bpe.BpeModel(bpe_model).pieces() if bpe_model else set())
    tokens = _make_vocabulary(tokens_file, learnt, config.extend_vocabulary)
    characters = _make_vocabulary(characters_file, collector.training_characters, config.extend_vocabulary)
    return Vocabularies(tokens, characters, _make_readings(collector, characters, config), bpe_model)


def most_frequent_unknown(
    counts: Mapping[str, int], known: vocabulary.Vocabulary, limit: int
) -> list[tuple[str, int]]:
    """Gives what a vocabulary lacks, with how often it occurs, the most frequent first.

    Args:
      counts: Collector.tokens or Collector.characters.
      known: the vocabulary of the same.
      limit: how many to give at most.
    """
    unknown = [(token, count) for token, count in counts.items() if known.count_unknown([token])]
    return sorted(unknown, key=lambda each: (-each[1], each[0]))[:limit]


def _read_token_type(path: str) -> object:
    try:
        with files.open_binary(path) as file:
            saved = json.load(file)
            return saved.get("unit") or saved["token_type"]  # the former name of the same key
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise errors.UserError(
            f"--vocabulary_dir: {path}: it cannot be read ({error!r}), expected JSON with the key "
            "token_type; pass a data or model directory, or --vocabulary=FILE."
        ) from error


def _make_vocabulary(path: str, found: Iterable[str], is_extended: bool) -> vocabulary.Vocabulary:
    if not path:
        return vocabulary.Vocabulary.build([found])
    frozen = vocabulary.Vocabulary.load(path)
    return frozen.extended(found) if is_extended else frozen


def _make_readings(
    collector: Collector, characters: vocabulary.Vocabulary, config: VocabularyConfig
) -> readings.Readings:
    """Gives which characters a token may stand for: the pairs seen in training, and the dictionary's."""
    path = _existing(config.vocabulary_dir, dataset_info.READINGS_FILE)
    frozen = readings.Readings.load(path) if path else readings.Readings({})
    if path and not config.extend_vocabulary:
        return frozen
    pairs = {token: set(written) for token, written in frozen.pairs.items()}
    for token, written in collector.pairs.items():
        pairs.setdefault(token, set()).update(written)
    for character in characters.tokens:
        for token in labelling.dictionary_tokens(character, collector.config):
            pairs.setdefault(token, set()).add(character)
    return readings.Readings({token: "".join(written) for token, written in pairs.items()})


def _existing(directory: str, name: str) -> str:
    path = os.path.join(directory, name)
    return path if directory and files.exists(path) else ""
