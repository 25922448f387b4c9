"""How many hotwords a request may have, and how long: the graph's tables grow with them."""

from __future__ import annotations

from collections.abc import Sequence

from estimator_asr.server import api_errors

_MAX_WORDS = 1000
_MAX_LENGTH = 400  # characters of one with its pinyin: about 50 hanzi
_MAX_TOTAL = 40_000  # of all


def check_texts(texts: Sequence[str]) -> None:
    """Checks texts with several hotwords each, before they are split; raises as `check` does."""
    total = sum(map(len, texts))
    if total > 2 * _MAX_TOTAL:
        problem = f"they have {total} characters with their separators, expected at most {2 * _MAX_TOTAL}"
        raise api_errors.refuse(f"hotwords: {problem}; send fewer")


def check(hotwords: Sequence[str]) -> None:
    """Checks hotwords in any form.

    Raises:
        api_errors.ApiError: there are too many, or they are too long.
    """
    longest, total = max(map(len, hotwords), default=0), sum(map(len, hotwords))
    if len(hotwords) > _MAX_WORDS:
        problem = f"there are {len(hotwords)}, expected at most {_MAX_WORDS}"
    elif longest > _MAX_LENGTH:
        problem = f"one has {longest} characters with its pinyin, expected at most {_MAX_LENGTH}"
    elif total > _MAX_TOTAL:
        problem = f"they have {total} characters with their pinyin, expected at most {_MAX_TOTAL}"
    else:
        return
    raise api_errors.refuse(f"hotwords: {problem}; send fewer")
