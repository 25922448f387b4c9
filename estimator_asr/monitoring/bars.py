"""Progress bars in a terminal that leave its lines whole; nothing where there is no terminal."""

from __future__ import annotations

import contextlib
import logging as standard_logging
import sys
from collections.abc import Iterator
from typing import Optional

import tqdm


def is_terminal() -> bool:
    """Tells whether a person watches: standard error, where bars and log lines go, is a terminal."""
    return sys.stderr.isatty()


def open_bar(what: str, total: int, done: int = 0, *, keep: bool = True) -> Optional[tqdm.tqdm]:
    """Returns a bar with the time left over all that was done so far; None without a terminal.

    Args:
        what: word before the numbers.
        total: steps to do.
        done: steps of an earlier run.
        keep: leave the bar in the terminal when it is closed.
    """
    if not is_terminal():
        return None
    return tqdm.tqdm(
        total=total,
        initial=done,
        desc=what,
        leave=keep,
        smoothing=0,
        dynamic_ncols=True,
        file=sys.stderr,
        bar_format="{desc} {n_fmt}/{total_fmt} |{bar}| left {remaining}{postfix}",
    )


@contextlib.contextmanager
def beside_log_lines() -> Iterator[None]:
    """Inside the block a log line goes above the bars; at its end, error or not, no bar is left open."""
    root = standard_logging.getLogger()
    before = list(root.handlers)
    if is_terminal():
        root.handlers[:] = [_AboveBars(handler) for handler in before]
    try:
        yield
    finally:
        root.handlers[:] = before
        # A later bar stands below an earlier one, so it goes first.
        for bar in sorted(getattr(tqdm.tqdm, "_instances", ()), key=lambda each: -each.pos):
            bar.close()


class _AboveBars(standard_logging.Handler):
    """Takes the bars away while another handler writes."""

    def __init__(self, handler: standard_logging.Handler):
        super().__init__()
        self._handler = handler

    def emit(self, record):
        with tqdm.tqdm.external_write_mode(file=sys.stderr):
            self._handler.handle(record)
