"""Findings that doctor prints, one per line; each has a level and a text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tfrecord_builder import errors

OK = "ok"
WARNING = "warning"  # works, but probably not as intended
PROBLEM = "problem"  # does not work


class Finding(NamedTuple):
    level: str
    text: str


ok, warning, problem = (functools.partial(Finding, level) for level in (OK, WARNING, PROBLEM))


def catch(check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yields a check's findings; if the check raises UserError, the error becomes the last finding."""
    try:
        yield from check()
    except errors.UserError as error:
        yield problem(str(error))
