"""Fonts for plots with Chinese characters; matplotlib draws a character in the first font that has it."""

from __future__ import annotations

import re

import matplotlib.font_manager

INSTALL_FONT = "install a CJK font, for example: apt-get install fonts-noto-cjk (Debian, Ubuntu)"
# matplotlib uses only a .ttc file's first font: in Noto and Source Han, the Japanese one, which has hanzi.
_CJK_FAMILIES = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "AR PL UMing CN", "AR PL UKai CN"),
    *("PingFang SC", "PingFang HK", "Hiragino Sans GB", "Heiti TC", "STHeiti", "Songti SC"),
    *("Microsoft YaHei", "SimHei", "SimSun", "Arial Unicode MS"),
)
_CJK = re.compile("[\u2e80-\uffdc\U00020000-\U0003ffff]")


def rc_params() -> dict:
    """Returns parameters for matplotlib.rc_context: installed font families, and $ as a plain character."""
    installed = set(matplotlib.font_manager.get_font_names())
    families = ["DejaVu Sans", *(name for name in _CJK_FAMILIES if name in installed)]
    return {"font.family": families, "text.parse_math": False}


def can_draw(text: str) -> bool:
    """Returns True if matplotlib can draw a text: it has no CJK characters, or a CJK font is installed."""
    return not _CJK.search(text) or len(rc_params()["font.family"]) > 1
