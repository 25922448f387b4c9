"""Shell scripts that replace make, pip, Python or uv in a test."""

import pathlib
from collections.abc import Mapping


def write(directory: pathlib.Path, scripts: Mapping[str, str]) -> None:
    """Writes executable scripts (path in the directory -> text), and creates the folders in their paths."""
    for name, text in scripts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
