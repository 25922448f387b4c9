"""A finding: one line of what was looked at, and whether it is as it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tfrecord_builder import errors

OK = "ok"
WARNING = "warning"  # works, but probably not as hoped
PROBLEM = "problem"  # does not work


class Finding(NamedTuple):
    """A level and a sentence."""

    level: str
    text: str


def ok(text: str) -> Finding:
    return Finding(OK, text)


def warning(text: str) -> Finding:
    return Finding(WARNING, text)


def problem(text: str) -> Finding:
    return Finding(PROBLEM, text)


def catch(check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yields the findings of a check; what a user can mend ends them as a problem."""
    try:
        yield from check()
    except errors.UserError as error:
        yield problem(str(error))
