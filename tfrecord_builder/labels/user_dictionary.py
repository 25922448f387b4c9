"""How the user wants phrases and names to be read: a text file, a phrase a line.

重庆    chong2 qing4
单雄信  shan4 xiong2 xin4
"""

from __future__ import annotations

import unicodedata

from tfrecord_builder import errors, syllables
from tfrecord_builder.corpora import text_files
from tfrecord_builder.labels import tokenisation

_FORM = "phrase<TAB>pin1 yin1"


def load(path: str) -> dict[str, tuple[str, ...]]:
    """Reads a dictionary.

    Args:
      path: UTF-8; phrase, tab, a toned syllable for each hanzi, with blanks between them. Empty lines are
        ignored.

    Returns:
      Phrase to syllables.

    Raises:
      UserError: the file cannot be read, or a line is not of that form or has a phrase for the second time.
    """
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text_files.read_lines(path, f"give a text file with lines {_FORM}"), 1):
        if not line.strip():
            continue
        phrase, tab, pinyin = line.partition("\t")
        phrase = unicodedata.normalize("NFKC", phrase.strip())  # as transcripts are
        problem = _problem(phrase, tab, pinyin) or (phrase in found and f"{phrase} is there twice")
        if problem:
            raise errors.UserError(
                f"--user_dictionary: {path}: line {number}: {problem}, expected {_FORM}; mend the line."
            )
        found[phrase] = tuple(tokenisation.normalise_pinyin(pinyin, phrase))
    return found


def _problem(phrase: str, tab: str, pinyin: str) -> str:
    """Says what is wrong with a line; empty if nothing is."""
    given = pinyin.split()
    if not tab:
        return "it has no tab"
    if not phrase or not all(map(tokenisation.is_hanzi, phrase)):
        return f"the phrase is {phrase!r}, which is not hanzi alone"
    if len(given) != len(phrase):
        return f"{phrase} has {len(phrase)} hanzi and {len(given)} syllables"
    wrong = [token for token in given if not _is_toned(token)]
    return f"{wrong[0]!r} is no toned syllable" if wrong else ""


def _is_toned(token: str) -> bool:
    spelled = tokenisation.normalise_pinyin(
        token
    )  # two where the token holds what NFKC writes with a blank: ´
    is_syllable = len(spelled) == 1 and syllables.split_syllable(spelled[0]) is not None
    return is_syllable and token[-1] in syllables.TONES
