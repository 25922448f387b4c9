"""Vocabulary: tokens and their ids. The file is UTF-8 with one token per line; the first token is <unk>."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tfrecord_builder import errors
from tfrecord_builder.data import syllables
from tfrecord_builder.storage import files

UNKNOWN = "<unk>"
SPACE = "<space>"  # the token for a space in a transcript
WORD_START = "\u2581"  # SentencePiece's mark for a space before a subword


class Joining(NamedTuple):
    """Rules for joining tokens into text: a separator, and ordered replacements that work in re and RE2."""

    separator: str
    rules: tuple[tuple[str, str], ...] = ()


# The token types, and the rules for joining their tokens into text.
JOININGS = {
    "syllable": Joining(" "),
    "toneless": Joining(" "),
    "initial_final": Joining("  ", syllables.JOIN_RULES),
    "character": Joining("", ((SPACE, " "),)),
    "bpe": Joining("", ((WORD_START, " "), ("^ ", ""))),
}
TOKEN_TYPES = tuple(JOININGS)


class Vocabulary:
    """An immutable list of tokens.

    Attributes:
        tokens: tuple of str; the id of a token is its index.
        size: number of tokens; the CTC blank is not counted.
        unknown_id: 0, the id of every token that is not in the list.
        blank_id: `size`, the class of the CTC blank, which is not a token.
        num_classes: `size` + 1.
        sha256: hex digest of the file that `save` writes.
    """

    unknown_id = 0

    def __init__(self, tokens: Sequence[str]):
        """Raises UserError if <unk> is not first, or a token is empty, is repeated or contains whitespace."""
        self.tokens = tuple(tokens)
        _check_tokens(self.tokens)
        self.size = len(self.tokens)
        self.blank_id = self.size
        self.num_classes = self.size + 1
        self.sha256 = hashlib.sha256(self._to_text().encode()).hexdigest()
        self._ids = {token: index for index, token in enumerate(self.tokens)}

    @classmethod
    def build(cls, token_sequences: Iterable[Iterable[str]]) -> Vocabulary:
        """Returns a vocabulary of <unk> followed by all tokens in the sequences, sorted."""
        seen = {token for tokens in token_sequences for token in tokens}
        return cls([UNKNOWN, *sorted(seen - {UNKNOWN})])

    @classmethod
    def load(cls, path: str) -> Vocabulary:
        """Reads a file that `save` wrote.

        Raises errors.UserError if the file is missing, is not UTF-8, or is not a vocabulary.
        """
        lines = read_lines(path, "vocabulary")
        try:
            return cls(lines)
        except errors.UserError as error:
            raise errors.UserError(f"{path}: {error}") from error

    def save(self, path: str) -> None:
        """Writes one token per line, atomically."""
        files.write_text(path, self._to_text())

    def extended(self, tokens: Iterable[str]) -> Vocabulary:
        """Returns a vocabulary with new tokens appended in sorted order; existing ids do not change."""
        return Vocabulary([*self.tokens, *sorted(set(tokens).difference(self.tokens))])

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Returns the ids of tokens; a token that is not in the list gets the id 0."""
        return [self._ids.get(token, self.unknown_id) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Returns the tokens for ids; raises IndexError for an id without a token, such as the blank."""
        ids = list(ids)
        for index in ids:
            if not 0 <= index < self.size:
                raise IndexError(f"id is {index}, expected 0 to {self.size - 1}")
        return [self.tokens[index] for index in ids]

    def count_unknown(self, tokens: Iterable[str]) -> int:
        """Counts the tokens that are not in the list."""
        return sum(token not in self._ids for token in tokens)

    def _to_text(self) -> str:
        return "".join(f"{token}\n" for token in self.tokens)


def read_lines(path: str, content: str) -> list[str]:
    """Returns the lines of a vocabulary or readings file; `content` says which, for error messages.

    Raises errors.UserError if the file cannot be read or is not UTF-8.
    """
    try:
        return files.read_text(path).removesuffix("\n").split("\n")
    except OSError as error:
        reason = f"{content} file cannot be read ({error.strerror})"
    except UnicodeDecodeError as error:
        reason = f"{content} file is not valid UTF-8 (byte {error.start})"
    raise errors.UserError(f"{path}: {reason}; restore the file")


def join_tokens(tokens: Iterable[str], token_type: str) -> str:
    """Joins tokens into text: syllables with spaces between them, characters and subwords without spaces.

    Initials and finals are combined into syllables. Raises ValueError if token_type is not in TOKEN_TYPES.
    """
    if token_type not in JOININGS:
        raise ValueError(f"token_type is {token_type!r}, expected one of {', '.join(TOKEN_TYPES)}")
    joining = JOININGS[token_type]
    text = joining.separator.join(tokens)
    for pattern, replacement in joining.rules:
        text = re.sub(pattern, replacement, text)
    return text


def min_ctc_frames(tokens: Sequence) -> int:
    """Returns the number of frames that CTC needs: one per token, and one more between equal neighbours."""
    return len(tokens) + sum(first == second for first, second in zip(tokens, tokens[1:]))


def _check_tokens(tokens: tuple[str, ...]) -> None:
    if not tokens or tokens[0] != UNKNOWN:
        first = repr(tokens[0]) if tokens else "missing"
        raise errors.UserError(f"the first token is {first}, expected {UNKNOWN}")
    seen = set()
    for line, token in enumerate(tokens, start=1):
        if not token or any(character.isspace() for character in token):
            raise errors.UserError(
                f"line {line}: token {token!r} is empty or contains white space; remove the line"
            )
        if token in seen:
            raise errors.UserError(f"line {line}: token {token!r} is a duplicate; remove one of the lines")
        seen.add(token)
