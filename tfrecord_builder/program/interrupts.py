"""Makes Ctrl-C end a program at once, without a traceback, while the program imports modules."""

from __future__ import annotations

import os
import signal

EXIT_CODE = 128 + signal.SIGINT  # the exit code that shells report if SIGINT ends a process


def exit_at_once(module_name: str) -> None:
    """Makes SIGINT end the process until raise_again() is called.

    Does nothing if SIGINT does not have Python's default handler, or if module_name is not "__main__".
    """
    if module_name == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Makes SIGINT raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os._exit(EXIT_CODE)
