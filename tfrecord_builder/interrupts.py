"""Ctrl-C while a program imports its modules: one line and exit code 130, no traceback.

Imports nothing but the standard library, so that a program can call it before all else.
"""

from __future__ import annotations

import os
import signal


def end_quietly() -> None:
    """Makes Ctrl-C end the process until raise_again; where SIGINT is ignored (nohup) it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number, frame):
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
