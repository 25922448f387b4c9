"""The commands that messages suggest."""

from __future__ import annotations

import shlex


def command(program: str, **flags: str) -> str:
    """Returns a command that runs one of this project's programs, quoted for a shell; "" omits a flag."""
    options = (f"--{name}={value}" for name, value in flags.items() if value)
    return shlex.join(["python", "-m", program, *options])
