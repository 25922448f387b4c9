"""Shows progress on standard error: a bar in a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import sys
import types

import tqdm

SECONDS = 10.0


class ProgressBar(tqdm.tqdm):
    """A tqdm bar that takes tqdm's arguments; outside terminals, prints nothing if it ends within SECONDS."""

    def __init__(self, *arguments, **options):
        if not sys.stderr.isatty():
            lines = types.SimpleNamespace(write=_write_line, flush=sys.stderr.flush)
            options.update(file=lines, mininterval=SECONDS, delay=SECONDS, leave=False, position=0)
        super().__init__(*arguments, **options)


def _write_line(text: str) -> None:
    if text.strip():
        print(text.strip(), file=sys.stderr, flush=True)
