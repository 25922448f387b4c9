"""Which font here can write a text: matplotlib draws boxes for characters that its own does not have."""

from __future__ import annotations

import functools
from typing import Optional

import matplotlib.font_manager
import matplotlib.ft2font

INSTALL_FONT = "install one, as with: apt-get install fonts-noto-cjk (Debian, Ubuntu)"


def find_font(text: str) -> Optional[str]:
    """Gives the file of a font that has every character of a text; None if none here has."""
    wanted = {ord(character) for character in text}
    fonts = matplotlib.font_manager.fontManager.ttflist
    usual = matplotlib.font_manager.findfont(matplotlib.font_manager.FontProperties())
    paths = sorted({font.fname for font in fonts}, key=lambda path: (path != usual, path))
    return next((path for path in paths if wanted <= _characters(path)), None)


def plain(text: str) -> str:
    """Gives what makes matplotlib write a text as it is, and not as mathematics between two dollar signs."""
    return text.replace("$", r"\$")


@functools.cache
def _characters(path: str) -> frozenset[int]:
    if "lastresort" in path.lower():  # has a box for every character
        return frozenset()
    try:
        return frozenset(matplotlib.ft2font.FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
