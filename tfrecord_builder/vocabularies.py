"""The files that number the labels: tokens, characters, and which character may stand for which token.

They come from the training split, or are taken over as they are (frozen) from an earlier build or model.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from collections.abc import Iterable, Sequence

from tfrecord_builder import dataset_info, errors, labels, readings, text, vocabulary

_UNIT_FILES = (dataset_info.INFO_FILE, "config.json")  # of a data directory, of a model directory


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """Tokens of the acoustic model, characters of the language model, and the readings between them."""

    tokens: vocabulary.Vocabulary
    characters: vocabulary.Vocabulary
    readings: readings.Readings

    def save(self, directory: str) -> None:
        """Writes the three files."""
        self.tokens.save(os.path.join(directory, dataset_info.TOKENS_FILE))
        self.characters.save(os.path.join(directory, dataset_info.CHARACTERS_FILE))
        self.readings.save(os.path.join(directory, dataset_info.READINGS_FILE))


def check_unit(directory: str, unit: str) -> None:
    """Raises UserError if a data or model directory says that its tokens are of another unit."""
    for path in (os.path.join(directory, name) for name in _UNIT_FILES):
        saved = _read_unit(path) if os.path.exists(path) else unit
        if saved != unit:
            raise errors.UserError(
                f"--vocabulary_dir: {path}: unit is {saved}, expected {unit}, the --unit of this build; "
                f"pass --unit={saved}, or another directory."
            )


def make(
    training_labels: Sequence[labels.Labels], tokens_file: str = "", directory: str = ""
) -> Vocabularies:
    """Gives the vocabularies of a build.

    Args:
      training_labels: labels of the training split; they give whatever is not frozen.
      tokens_file: frozen tokens, or empty.
      directory: data or model directory with frozen tokens, characters and readings, or empty. The last two
        may be missing (a model that writes characters has none).

    Raises:
      UserError: there is neither a training split nor a frozen vocabulary, or the frozen one is missing.
    """
    if directory:
        tokens_file = os.path.join(directory, dataset_info.TOKENS_FILE)
    if not tokens_file and not training_labels:
        raise errors.UserError(
            "--corpus_dir: it has no usable train split, which gives the vocabulary, expected one; "
            "add it, or pass --vocabulary_dir=DIR to reuse the vocabulary of an earlier build or a model."
        )
    characters_file = _existing(directory, dataset_info.CHARACTERS_FILE)
    readings_file = _existing(directory, dataset_info.READINGS_FILE)
    tokens = _make_vocabulary(tokens_file, (found.tokens for found in training_labels))
    characters = _make_vocabulary(characters_file, (found.characters for found in training_labels))
    pairs = (
        readings.Readings.load(readings_file) if readings_file else make_readings(training_labels, characters)
    )
    return Vocabularies(tokens, characters, pairs)


def make_readings(
    training_labels: Iterable[labels.Labels], characters: vocabulary.Vocabulary
) -> readings.Readings:
    """Gives which characters a token may stand for: the pairs seen in training, and the dictionary's."""
    pairs: dict[str, set[str]] = collections.defaultdict(set)
    for found in training_labels:
        for token, character in zip(found.tokens, found.characters):
            pairs[token].add(character)
    for character in characters.tokens:
        for token in text.dictionary_readings(character) if len(character) == 1 else ():
            pairs[token].add(character)
    return readings.Readings({token: "".join(sorted(written)) for token, written in pairs.items()})


def _read_unit(path: str) -> object:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["unit"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.UserError(
            f"--vocabulary_dir: {path}: it cannot be read ({error!r}), expected JSON with the key unit; "
            "pass a data or model directory, or --vocabulary=FILE."
        ) from error


def _make_vocabulary(path: str, token_sequences: Iterable[Sequence[str]]) -> vocabulary.Vocabulary:
    return vocabulary.Vocabulary.load(path) if path else vocabulary.Vocabulary.build(token_sequences)


def _existing(directory: str, name: str) -> str:
    path = os.path.join(directory, name)
    return path if directory and os.path.exists(path) else ""
