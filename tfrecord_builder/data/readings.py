"""Reads and writes readings.tsv, whose lines list the characters for each syllable."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary
from tfrecord_builder.storage import files


class Readings:
    """An immutable map from each syllable to the characters that can be read as that syllable.

    Attributes:
        pairs: dict from a syllable to a string of distinct characters; syllables and characters are sorted.
        sha256: hex digest of the file that `save` writes.
    """

    def __init__(self, pairs: Mapping[str, str]):
        self.pairs = {syllable: "".join(sorted(set(pairs[syllable]))) for syllable in sorted(pairs)}
        self.sha256 = hashlib.sha256(self._to_text().encode()).hexdigest()

    @classmethod
    def load(cls, path: str) -> Readings:
        """Reads a file that `save` wrote.

        Raises errors.UserError if the file is missing or a line is not of the form syllable<TAB>characters.
        """
        pairs = {}
        for number, line in enumerate(vocabulary.read_lines(path, "readings"), start=1):
            syllable, tab, characters = line.partition("\t")
            if line and not (syllable and tab and characters):
                raise errors.UserError(f"{path}: line {number} is {line!r}, expected syllable<TAB>characters")
            if line:
                pairs[syllable] = characters
        return cls(pairs)

    def save(self, path: str) -> None:
        """Writes the file atomically."""
        files.write_text(path, self._to_text())

    def mask(self, tokens: vocabulary.Vocabulary, characters: vocabulary.Vocabulary) -> np.ndarray:
        """Returns a mask that is True where a character can be read as a token, bool [tokens, characters].

        The token <unk> matches every character. Any other token matches the character <unk> only if it
        matches no other character of the vocabulary, so that no row is all False.
        """
        allowed = np.zeros([tokens.size, characters.size], bool)
        for row, token in enumerate(tokens.tokens):
            allowed[row, characters.encode(self.pairs.get(token, ""))] = True
        allowed[:, characters.unknown_id] = False
        allowed[~allowed.any(axis=1), characters.unknown_id] = True
        allowed[tokens.unknown_id] = True
        return allowed

    def _to_text(self) -> str:
        return "".join(f"{syllable}\t{characters}\n" for syllable, characters in self.pairs.items())
