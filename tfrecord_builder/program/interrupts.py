"""Makes Ctrl-C end a program at once while it imports its modules, without the traceback of an import."""

from __future__ import annotations

import os
import signal

EXIT_CODE = 128 + signal.SIGINT  # the exit code by which shells report a process ended by SIGINT


def exit_at_once(module_name: str) -> None:
    """Makes SIGINT end the process until raise_again(); not if it is ignored or the module is imported."""
    if module_name == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Makes SIGINT raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os._exit(EXIT_CODE)
