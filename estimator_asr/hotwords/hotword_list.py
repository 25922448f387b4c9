"""Hotwords of --hotwords and --hotwords_file: text, optional pinyin, optional boost.

# a file has one hotword per line
神雕侠侣
神雕侠侣 shen2 diao1 xia2 lv3
乐山 le4 shan1 6
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import text_files
from tfrecord_builder.data import dataset_info
from tfrecord_builder.labels import tokenisation
from tfrecord_builder.tokens import syllables, vocabulary

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_WITHOUT_SANDHI = {"一": "yi1", "不": "bu4"}
_FORM = "WORD, WORD pin1 yin1, or either with a boost: WORD 6"
DEFAULT_BOOST = 4.0  # natural log; see docs/results.md
_MOST_BOOST = 1_000_000
TOKEN_TYPES = ("syllable", "toneless")  # of models that take hotwords
_SEPARATORS = re.compile("[\n,，、]")
FLAG_HELP = f"words to recognise, comma separated: {_FORM}"
FILE_FLAG_HELP = "file of words to recognise, one per line as --hotwords has them"


@dataclasses.dataclass(frozen=True)
class Hotword:
    """A word with one pronunciation, a syllable for each character; boost None: that of the export."""

    text: str
    syllables: tuple[str, ...]
    boost: Optional[float] = None

    def __str__(self) -> str:
        """Returns it as the SavedModel reads it: earlier ones take a digit at the end for the boost."""
        ends_in_digit = _NUMBER.fullmatch(" ".join(self.syllables[-1:]))
        boost = DEFAULT_BOOST if ends_in_digit and self.boost is None else self.boost
        return " ".join([self.text, *self.syllables, *([] if boost is None else [f"{boost:f}"])])


def read_for(version_dir: str, token_type: str, flags) -> list[str]:
    """Returns the hotwords of the flags hotwords and hotwords_file, as the SavedModel reads them.

    Names those that an export ignores on standard error; see read.
    """
    hotwords = read(flags.hotwords, flags.hotwords_file)
    if hotwords and token_type in TOKEN_TYPES:
        tokens = vocabulary.Vocabulary.load(os.path.join(version_dir, "assets", dataset_info.TOKENS_FILE))
        unknown = find_unknown(hotwords, tokens, token_type)
        if unknown:
            examples = errors.list_examples(list(map(str, unknown)))
            counts = f"{len(unknown)} of {len(hotwords)} hotwords"
            problem = "have a syllable that the acoustic model lacks, and are ignored"
            print(f"warning: {counts} {problem}: {examples}", file=sys.stderr, flush=True)
    return [str(each) for each in hotwords]


def read(words: Sequence[str], path: Optional[str]) -> list[Hotword]:
    """Returns the hotwords of a flag and of a file (None: of the flag alone), each pronunciation alone.

    Empty lines of the file and comments (#) are left out.

    Raises:
        errors.UserError: the file cannot be read, or a hotword has another form; names file and line.
    """
    words = [word for text in words for word in split(text) or [text]]
    lines = [(f"--hotwords: word {number}", word) for number, word in enumerate(words, 1)]
    if path is not None:
        text = text_files.read_lines(path, f"give a text file with lines {_FORM}")
        numbered = [(number, line) for number, line in enumerate(text, 1) if line.strip()]
        lines += [
            (f"--hotwords_file: {path}: line {number}", line)
            for number, line in numbered
            if not line.strip().startswith("#")
        ]
    return [each for where, line in lines for each in _parse(line, where)]


def split(text: str) -> list[str]:
    """Returns the words between commas, also Chinese ones, and line breaks."""
    return [word.strip() for word in _SEPARATORS.split(text) if word.strip()]


def find_unknown(
    hotwords: Sequence[Hotword], tokens: vocabulary.Vocabulary, token_type: str
) -> list[Hotword]:
    """Returns the hotwords with a syllable that an acoustic model of the token type lacks."""
    spell = syllables.without_tone if token_type == "toneless" else str
    return [each for each in hotwords if tokens.count_unknown(map(spell, each.syllables))]


def _parse(line: str, where: str) -> list[Hotword]:
    """Returns a hotword, once for each of its pronunciations."""
    text, *spoken = unicodedata.normalize("NFKC", line).split() or [""]
    is_spelled = len(spoken) == len(text) and spoken[-1:] == [text[-1:]]  # the last syllable is a digit's
    has_boost = spoken and _NUMBER.fullmatch(spoken[-1]) and not is_spelled
    boost = float(spoken.pop()) if has_boost else None
    problem = _find_problem(text, spoken, boost)
    if problem:
        raise errors.UserError(f"{where}: {problem}, expected {_FORM}; fix it")
    readings = [tokenisation.normalise_pinyin(" ".join(spoken), text)] if spoken else _read_pinyin(text)
    return [Hotword(text, tuple(token.lower() for token in reading), boost) for reading in readings]


def _read_pinyin(text: str) -> list[tuple[str, ...]]:
    """Returns the pinyin of the dictionary, and without the tone sandhi of 一 and 不 if it has that."""
    from tfrecord_builder.labels import pinyin  # takes most of a second

    reading = tuple(pinyin.Reader().read(text))
    plain = tuple(_WITHOUT_SANDHI.get(character, token) for character, token in zip(text, reading))
    return list(dict.fromkeys([reading, plain]))


def _find_problem(text: str, spoken: Sequence[str], boost: Optional[float]) -> str:
    """Returns what is wrong with a hotword; empty if nothing is."""
    if not text:
        return "is empty"
    if boost is not None and boost <= 0:
        return f"boost is {boost:g}, which is not above 0"
    if boost is not None and boost > _MOST_BOOST:
        return f"boost is {boost:g}, which is above {_MOST_BOOST}"
    if spoken and len(spoken) != len(text):
        return f"{text} has {len(text)} characters and {len(spoken)} syllables"
    wrong = [word for word in spoken if not _is_syllable(word)]
    return f"{wrong[0]!r} is not a toned syllable" if wrong else ""


def _is_syllable(word: str) -> bool:
    """True for a toned syllable in any spelling, and for a single letter or digit, which is itself."""
    spelled = tokenisation.normalise_pinyin(word)
    is_toned = len(spelled) == 1 and syllables.split_syllable(spelled[0]) is not None
    return (is_toned and word[-1] in syllables.TONES) or (len(word) == 1 and word.isalnum())
