"""Writes the numbers of a transcript in hanzi, as they are read in Mandarin.

    2026年  二零二六年      four digits before 年, with or without a space: digit by digit
    23      二十三          a whole number
    1,500   一千五百
    3.5     三点五          after the point digit by digit; with several points (1.2.3) throughout
    50%     百分之五十      and ‰ 千分之
    -5      负五            a minus that follows neither a letter nor a digit
    007     零零七          a leading zero, or seven digits and more without commas: digit by digit

1 is always 一 and 2 is always 二; the context of a number does not matter, except 年.
"""

from __future__ import annotations

import re
import unicodedata

# Telephone and card numbers are as long; amounts of that size are written with commas or 万.
_MIN_SPELLED_DIGITS = 7
_MAX_DIGITS = 16  # what cn2an reads as one number
_RATIOS = {"%": "百分之", "‰": "千分之", None: ""}
_NUMBER = re.compile(
    r"(?P<minus>(?<![0-9A-Za-z-])-)?"
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?P<fraction>(?:\.[0-9]+)*)"
    r"(?P<ratio>[%‰])?(?P<year>(?= ?年))?"
)


def read(transcript: str) -> str:
    """Returns the transcript in NFKC with every number in hanzi."""
    return _NUMBER.sub(_read_number, unicodedata.normalize("NFKC", transcript))


def _read_number(match: re.Match) -> str:
    sign = "" if match["minus"] is None else "负"
    return sign + _RATIOS[match["ratio"]] + _read_digits(match)


def _read_digits(match: re.Match) -> str:
    import cn2an  # slow to import

    whole, fraction = match["whole"].replace(",", ""), match["fraction"]
    if fraction.count(".") > 1 or len(whole) > _MAX_DIGITS or (not fraction and _is_spelled(match)):
        return cn2an.an2cn(whole + fraction, "direct")
    return cn2an.an2cn(whole, "low") + (cn2an.an2cn(fraction, "direct") if fraction else "")


def _is_spelled(match: re.Match) -> bool:
    whole = match["whole"]
    is_year = len(whole) == 4 and match["year"] is not None
    has_leading_zero = whole.startswith("0") and len(whole) > 1
    return is_year or has_leading_zero or (len(whole) >= _MIN_SPELLED_DIGITS and "," not in whole)
