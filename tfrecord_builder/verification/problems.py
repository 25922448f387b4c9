"""A problem of a data directory, and how it is printed."""

from __future__ import annotations

import dataclasses

# Kinds of problems, as in "and 12 more damaged records".
FILES = "problems of files"
DAMAGED = "damaged records"
WRONG = "wrong records"
SAMPLE = "records that differ from their audio"

ADVICE = "copy or build the data again"


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem: its kind, the path of the file, and the rest of the sentence."""

    kind: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def unreadable(path: str, error: OSError, name: str = "file") -> Problem:
    """Returns the problem of a file that is missing or cannot be read."""
    is_missing = isinstance(error, FileNotFoundError)
    text = "is missing" if is_missing else f"cannot be read ({error.strerror or error})"
    return Problem(FILES, path, f"{name} {text}; {ADVICE}")


def wrong_sha256(path: str, got: str, expected: str) -> Problem:
    """Returns the problem of a file whose bytes were changed."""
    return Problem(FILES, path, f"sha256 is {got[:16]}..., expected {expected[:16]}...; {ADVICE}")


def locate(number: int, offset: int, utterance_id: str) -> str:
    """Names a record (from 0), its first byte and, if known, its utterance."""
    known = f" (utterance {utterance_id})" if utterance_id else ""
    return f"record {number} at byte {offset}{known}"
