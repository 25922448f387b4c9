"""Shell scripts that stand for make, pip, Python or uv in a test."""

from __future__ import annotations

import pathlib


def write(path: pathlib.Path, script: str) -> None:
    """Writes a script that can be run, and makes its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
