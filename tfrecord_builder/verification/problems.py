"""How a problem of a data directory is told."""

from __future__ import annotations

import dataclasses

# Kinds of problems, as in "and 12 more damaged records".
FILES = "problems of files"
DAMAGED = "damaged records"
WRONG = "wrong records"
TOTALS = "wrong totals"
SAMPLE = "records that differ from their audio"

AGAIN = "copy or build the data again"


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its kind, the path of the file, and the rest of the sentence."""

    kind: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def unreadable(path: str, error: OSError, name: str = "it") -> Problem:
    """Says that a file is missing, or what the operating system gives instead of its bytes."""
    is_missing = isinstance(error, FileNotFoundError)
    what = "is missing" if is_missing else f"cannot be read ({error.strerror or error})"
    return Problem(FILES, path, f"{name} {what}; {AGAIN}")


def sha256_problem(path: str, found: str, expected: str) -> Problem:
    """Says that the bytes of a file are others than were written."""
    return Problem(FILES, path, f"its sha256 is {found[:16]}..., expected {expected[:16]}...; {AGAIN}")


def describe(number: int, offset: int, utterance_id: str) -> str:
    """Names a record (from 0), the byte at which it begins and, if known, its utterance."""
    known = f" (utterance {utterance_id})" if utterance_id else ""
    return f"record {number} at byte {offset}{known}"
