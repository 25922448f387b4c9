"""Progress bars in a terminal, which leave log lines intact; none without a terminal."""

from __future__ import annotations

import contextlib
import logging as standard_logging
import sys
from collections.abc import Iterator
from typing import Optional

import tqdm


def is_terminal() -> bool:
    """Returns whether standard error, where bars and log lines go, is a terminal."""
    return sys.stderr.isatty()


def open_bar(name: str, total: int, done: int = 0, *, keep: bool = True) -> Optional[tqdm.tqdm]:
    """Returns a bar with the remaining time; None without a terminal.

    Args:
        name: shown before the numbers.
        total: number of steps.
        done: steps of an earlier run.
        keep: whether the closed bar stays in the terminal.
    """
    if not is_terminal():
        return None
    return tqdm.tqdm(
        total=total,
        initial=done,
        desc=name,
        leave=keep,
        smoothing=0,
        dynamic_ncols=True,
        file=sys.stderr,
        bar_format="{desc} {n_fmt}/{total_fmt} |{bar}| left {remaining}{postfix}",
    )


@contextlib.contextmanager
def beside_log_lines() -> Iterator[None]:
    """Inside the block log lines go above the bars; at its end, error or not, all bars are closed."""
    root = standard_logging.getLogger()
    handlers = list(root.handlers)
    if is_terminal():
        root.handlers[:] = [_AboveBars(handler) for handler in handlers]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        # A later bar is below an earlier one, so it is closed first.
        for bar in sorted(getattr(tqdm.tqdm, "_instances", ()), key=lambda each: -each.pos):
            bar.close()


class _AboveBars(standard_logging.Handler):
    """Clears the bars while another handler writes; tqdm's own redirection knows no absl handler."""

    def __init__(self, handler: standard_logging.Handler):
        super().__init__()
        self._handler = handler

    def emit(self, record):
        with tqdm.tqdm.external_write_mode(file=sys.stderr):
            self._handler.handle(record)
