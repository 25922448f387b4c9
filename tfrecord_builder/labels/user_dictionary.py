"""The user's pronunciation dictionary for phrases and names: a text file, one phrase per line.

重庆    chong2 qing4
单雄信  shan4 xiong2 xin4
"""

from __future__ import annotations

import unicodedata

from tfrecord_builder import errors
from tfrecord_builder.corpora import text_files
from tfrecord_builder.labels import normalisation, tokenisation
from tfrecord_builder.tokens import syllables

_FORM = "phrase<TAB>pin1 yin1"


def load(path: str) -> dict[str, tuple[str, ...]]:
    """Returns the syllables of each phrase in a dictionary file; empty lines are ignored.

    Raises:
        errors.UserError: the file cannot be read, or a line has another form or a duplicate phrase.
    """
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text_files.read_lines(path, f"give a text file with lines {_FORM}"), 1):
        if not line.strip():
            continue
        phrase, tab, pinyin = line.partition("\t")
        phrase = unicodedata.normalize("NFKC", phrase.strip())  # as transcripts are
        problem = _problem(phrase, tab, pinyin) or (phrase in found and f"{phrase} is a duplicate")
        if problem:
            raise errors.UserError(
                f"--user_dictionary: {path}: line {number}: {problem}, expected {_FORM}; fix the line."
            )
        found[phrase] = tuple(tokenisation.normalise_pinyin(pinyin, phrase))
    return found


def _problem(phrase: str, tab: str, pinyin: str) -> str:
    """Returns what is wrong with a line; empty if nothing is."""
    given = pinyin.split()
    if not tab:
        return "tab is missing"
    if not phrase or not all(map(normalisation.is_hanzi, phrase)):
        return f"phrase is {phrase!r}, which is not only hanzi"
    if len(given) != len(phrase):
        return f"{phrase} has {len(phrase)} hanzi and {len(given)} syllables"
    wrong = [token for token in given if not _is_toned(token)]
    return f"{wrong[0]!r} is not a toned syllable" if wrong else ""


def _is_toned(token: str) -> bool:
    spelled = tokenisation.normalise_pinyin(token)  # two if NFKC writes the token with a space: ´
    is_syllable = len(spelled) == 1 and syllables.split_syllable(spelled[0]) is not None
    return is_syllable and token[-1] in syllables.TONES
