"""Findings of doctor: one line each, with a level."""

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
    """Yields the findings of a check; a UserError becomes its last finding, a problem."""
    try:
        yield from check()
    except errors.UserError as error:
        yield problem(str(error))
