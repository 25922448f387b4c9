"""Digits in a transcript as they are read in Mandarin.

    2026年  二零二六年      four digits before 年: digit by digit; also with a blank between them
    23      二十三          a whole number
    1,500   一千五百
    3.5     三点五          behind the point digit by digit, and with several points (1.2.3) throughout
    50%     百分之五十      and ‰ 千分之
    -5      负五            a minus that stands neither behind a letter nor behind a digit
    007     零零七          a zero in front, or seven digits and more without commas: digit by digit

1 is always 一 and 2 is always 二; what stands around a number does not matter, but for 年.
"""

from __future__ import annotations

import re
import unicodedata

# Room, bank card and telephone numbers are as long; amounts of that size are written with commas or 万.
_FEWEST_SPELLED_DIGITS = 7
_MOST_DIGITS = 16  # what cn2an reads as one number
_SHARES = {"%": "百分之", "‰": "千分之", None: ""}
_NUMBER = re.compile(
    r"(?P<minus>(?<![0-9A-Za-z-])-)?"
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?P<fraction>(?:\.[0-9]+)*)"
    r"(?P<share>[%‰])?(?P<year>(?= ?年))?"
)


def read(transcript: str) -> str:
    """Gives the transcript, in NFKC, with hanzi for every number; all else stays."""
    return _NUMBER.sub(_read_number, unicodedata.normalize("NFKC", transcript))


def _read_number(match: re.Match) -> str:
    sign = "" if match["minus"] is None else "负"
    return sign + _SHARES[match["share"]] + _read_digits(match)


def _read_digits(match: re.Match) -> str:
    import cn2an  # a quarter of a second, which only those pay who ask for it

    whole, fraction = match["whole"].replace(",", ""), match["fraction"]
    if fraction.count(".") > 1 or len(whole) > _MOST_DIGITS or (not fraction and _is_spelled(match)):
        return cn2an.an2cn(whole + fraction, "direct")
    return cn2an.an2cn(whole, "low") + (cn2an.an2cn(fraction, "direct") if fraction else "")


def _is_spelled(match: re.Match) -> bool:
    whole = match["whole"]
    is_year = len(whole) == 4 and match["year"] is not None
    has_leading_zero = whole.startswith("0") and len(whole) > 1
    return is_year or has_leading_zero or (len(whole) >= _FEWEST_SPELLED_DIGITS and "," not in whole)
