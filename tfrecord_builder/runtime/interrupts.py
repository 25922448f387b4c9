"""Ctrl-C while a program imports its modules: it ends at once, instead of with the traceback of an import."""

from __future__ import annotations

import os
import signal

EXIT_CODE = 128 + signal.SIGINT  # shells report a process that SIGINT ended by this code


def exit_at_once(module_name: str) -> None:
    """Lets SIGINT end the process until raise_again(); not if it is ignored, or the module is imported."""
    if module_name == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Lets SIGINT raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os._exit(EXIT_CODE)
