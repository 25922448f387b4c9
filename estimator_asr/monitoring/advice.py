"""Builds the commands that messages suggest."""

from __future__ import annotations

import shlex


def command(program: str, **flags: str) -> str:
    """Returns a shell command that runs one of this project's programs; omits flags whose value is ""."""
    options = (f"--{name}={value}" for name, value in flags.items() if value)
    return shlex.join(["python", "-m", program, *options])
