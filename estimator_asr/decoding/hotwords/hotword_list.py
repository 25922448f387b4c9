"""Reads hotwords, which may have pinyin and a boost, from the flags --hotwords and --hotwords_file.

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
from tfrecord_builder.data import dataset_info, syllables, vocabulary
from tfrecord_builder.labels import tokenisation

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_WITHOUT_SANDHI = {"一": "yi1", "不": "bu4"}
_FORM = "WORD or WORD pin1 yin1, optionally followed by a boost, such as WORD 6"
DEFAULT_BOOST = 4.0  # natural logarithm; values are compared in docs/experiments/hotwords.md
_MAX_BOOST = 1_000_000
TOKEN_TYPES = ("syllable", "toneless")  # only models with these token types support hotwords
_SEPARATORS = re.compile("[\n,，、]")
FLAG_HELP = f"comma-separated words to recognise, each in the form {_FORM}"
FILE_FLAG_HELP = "text file of words to recognise, one per line, in the form that --hotwords accepts"


@dataclasses.dataclass(frozen=True)
class Hotword:
    """A word with one pronunciation, one syllable per character; if boost is None, the default applies."""

    text: str
    syllables: tuple[str, ...]
    boost: Optional[float] = None

    def __str__(self) -> str:
        """Returns the hotword in the form that the SavedModel reads."""
        # Older SavedModels take a final digit for the boost, so a boost must follow a digit syllable.
        ends_in_digit = _NUMBER.fullmatch(" ".join(self.syllables[-1:]))
        boost = DEFAULT_BOOST if ends_in_digit and self.boost is None else self.boost
        return " ".join([self.text, *self.syllables, *([] if boost is None else [f"{boost:f}"])])


def read_for(version_dir: str, token_type: str, flags) -> list[str]:
    """Returns the hotwords from the flags hotwords and hotwords_file, in the form that the SavedModel reads.

    Prints a warning if the export will ignore some of the hotwords. Raises the same errors as `read`.
    """
    hotwords = read(flags.hotwords, flags.hotwords_file)
    if hotwords and token_type in TOKEN_TYPES:
        tokens = vocabulary.Vocabulary.load(os.path.join(version_dir, "assets", dataset_info.TOKENS_FILE))
        unknown = find_unknown(hotwords, tokens, token_type)
        if unknown:
            examples = errors.list_examples(list(map(str, unknown)))
            ignored = f"{len(unknown)} of {len(hotwords)} hotwords are ignored"
            reason = "because the acoustic model lacks one of their syllables"
            print(f"warning: {ignored}, {reason}: {examples}", file=sys.stderr, flush=True)
    return [str(hotword) for hotword in hotwords]


def read(words: Sequence[str], path: Optional[str]) -> list[Hotword]:
    """Returns the hotwords in `words` and, unless `path` is None, in the file; one for each pronunciation.

    Empty lines in the file, and lines that start with #, are skipped. Raises errors.UserError if the file
    cannot be read, or if a hotword is malformed; the message says where.
    """
    hotwords = read_words(words, "--hotwords")
    if path is not None:
        lines = text_files.read_lines(path, f"pass a text file whose lines have the form {_FORM}")
        for number, line in enumerate(map(str.strip, lines), 1):
            if line and not line.startswith("#"):
                hotwords += _parse(line, f"--hotwords_file: {path}: line {number}")
    return hotwords


def read_words(texts: Sequence[str], source: str) -> list[Hotword]:
    """Returns the hotwords in texts, one for each pronunciation.

    Raises errors.UserError if a hotword is malformed; the message starts with `source`.
    """
    words = [word for text in texts for word in split(text) or [text]]
    return [
        hotword
        for number, word in enumerate(words, 1)
        for hotword in _parse(word, f"{source}: word {number}")
    ]


def split(text: str) -> list[str]:
    """Splits a text into words at commas, including Chinese ones, and at line breaks."""
    return [word.strip() for word in _SEPARATORS.split(text) if word.strip()]


def find_unknown(
    hotwords: Sequence[Hotword], tokens: vocabulary.Vocabulary, token_type: str
) -> list[Hotword]:
    """Returns the hotwords with a syllable that is not in `tokens`, an acoustic model's vocabulary."""
    spell = syllables.without_tone if token_type == "toneless" else str
    return [hotword for hotword in hotwords if tokens.count_unknown(map(spell, hotword.syllables))]


def _parse(line: str, where: str) -> list[Hotword]:
    """Returns one hotword for each pronunciation of the word in `line`."""
    text, *pinyin = unicodedata.normalize("NFKC", line).split() or [""]
    is_spelled = len(pinyin) == len(text) and pinyin[-1:] == [text[-1:]]  # the last item is not a boost
    has_boost = pinyin and _NUMBER.fullmatch(pinyin[-1]) and not is_spelled
    boost = float(pinyin.pop()) if has_boost else None
    problem = _find_problem(text, pinyin, boost)
    if problem:
        raise errors.UserError(f"{where}: {problem}. Write {_FORM}.")
    readings = [tokenisation.normalise_pinyin(" ".join(pinyin), text)] if pinyin else _read_pinyin(text)
    return [Hotword(text, tuple(token.lower() for token in reading), boost) for reading in readings]


def _read_pinyin(text: str) -> list[tuple[str, ...]]:
    """Returns the pinyin from the dictionary and, if 一 or 不 has tone sandhi, also the pinyin without it."""
    from tfrecord_builder.labels import pinyin  # takes most of a second to import

    reading = tuple(pinyin.PinyinReader().read(text))
    plain = tuple(_WITHOUT_SANDHI.get(character, token) for character, token in zip(text, reading))
    return list(dict.fromkeys([reading, plain]))


def _find_problem(text: str, pinyin: Sequence[str], boost: Optional[float]) -> str:
    """Returns a description of what is wrong with a hotword, or "" if it is valid."""
    if not text:
        return "the hotword is empty"
    if boost is not None and boost <= 0:
        return f"boost is {boost:g}, but must be above 0"
    if boost is not None and boost > _MAX_BOOST:
        return f"boost is {boost:g}, but must be at most {_MAX_BOOST}"
    if pinyin and len(pinyin) != len(text):
        return f"{text} has {len(text)} characters but {len(pinyin)} syllables"
    invalid = [token for token in pinyin if not _is_syllable(token)]
    return f"{invalid[0]!r} is not a toned syllable" if invalid else ""


def _is_syllable(token: str) -> bool:
    """Returns True for a toned syllable in any spelling, and for a letter or digit, itself a syllable."""
    spelled = tokenisation.normalise_pinyin(token)
    is_toned = len(spelled) == 1 and syllables.split_syllable(spelled[0]) is not None
    return (is_toned and token[-1] in syllables.TONES) or (len(token) == 1 and token.isalnum())
