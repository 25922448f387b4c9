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
from collections.abc import Iterator, Sequence
from typing import Optional

from estimator_asr.saved_model import export_info
from tfrecord_builder import errors
from tfrecord_builder.corpora import text_files
from tfrecord_builder.data import dataset_info
from tfrecord_builder.labels import tokenisation
from tfrecord_builder.tokens import syllables, vocabulary

_NUMBER = re.compile(r"[+-]?[0-9.]+")
_WITHOUT_SANDHI = {"一": "yi1", "不": "bu4"}
FLAG_HELP = "words to recognise, comma separated: WORD, WORD pin1 yin1, or either with a boost: WORD 6"
FILE_FLAG_HELP = "file of words to recognise, one per line as --hotwords has them"
_FORM = "WORD, WORD pin1 yin1, or either with a boost: WORD 6"


@dataclasses.dataclass(frozen=True)
class Hotword:
    """A word with one pronunciation, a syllable for each character; boost None: that of the export."""

    text: str
    syllables: tuple[str, ...]
    boost: Optional[float] = None

    def __str__(self) -> str:
        """Returns it as the SavedModel reads it."""
        return " ".join([self.text, *self.syllables, *([] if self.boost is None else [f"{self.boost:f}"])])


def read_for(version_dir: str, flags) -> list[str]:
    """Returns the hotwords of the flags hotwords and hotwords_file, as the SavedModel reads them.

    Names those that an export ignores on standard error; see read.
    """
    hotwords = read(flags.hotwords, flags.hotwords_file)
    if hotwords:
        _warn_of_unknown(hotwords, version_dir)
    return [str(each) for each in hotwords]


def read(words: Sequence[str], path: Optional[str]) -> list[Hotword]:
    """Returns the hotwords of a flag and of a file (None: of the flag alone), each pronunciation alone.

    Raises:
        errors.UserError: the file cannot be read, or a hotword has another form; names file and line.
    """
    lines = [*_number(words), *_read_file(path)]
    return [each for where, line in lines for each in _parse(line, where)]


def find_unknown(
    hotwords: Sequence[Hotword], tokens: vocabulary.Vocabulary, token_type: str
) -> list[Hotword]:
    """Returns the hotwords with a syllable that an acoustic model of the token type lacks."""
    spell = syllables.without_tone if token_type == "toneless" else str
    return [each for each in hotwords if tokens.count_unknown(map(spell, each.syllables))]


def _warn_of_unknown(hotwords: Sequence[Hotword], version_dir: str) -> None:
    tokens = vocabulary.Vocabulary.load(os.path.join(version_dir, "assets", dataset_info.TOKENS_FILE))
    unknown = find_unknown(hotwords, tokens, export_info.load(version_dir).token_type)
    if unknown:
        examples = ", ".join(map(str, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
        counts = f"{len(unknown)} of {len(hotwords)} hotwords"
        message = (
            f"warning: {counts} have a syllable that the acoustic model lacks, and are ignored: {examples}"
        )
        print(message, file=sys.stderr, flush=True)


def _number(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    return ((f"--hotwords: word {number}", word) for number, word in enumerate(words, start=1))


def _read_file(path: Optional[str]) -> Iterator[tuple[str, str]]:
    """Yields where each line stands, and the line; empty lines and comments (#) are left out."""
    if path is None:
        return
    for number, line in enumerate(text_files.read_lines(path, f"give a text file with lines {_FORM}"), 1):
        if line.strip() and not line.strip().startswith("#"):
            yield f"--hotwords_file: {path}: line {number}", line


def _parse(line: str, where: str) -> list[Hotword]:
    """Returns a hotword, once for each of its pronunciations."""
    text, *given = unicodedata.normalize("NFKC", line).split() or [""]
    boost = float(given.pop()) if given and _is_number(given[-1]) else None
    problem = _problem(text, given, boost)
    if problem:
        raise errors.UserError(f"{where}: {problem}, expected {_FORM}; fix it")
    spoken = tokenisation.normalise_pinyin(" ".join(given), text)
    readings = [tuple(token.lower() for token in spoken)] if spoken else _read_pinyin(text)
    return [Hotword(text, reading, boost) for reading in readings]


def _read_pinyin(text: str) -> list[tuple[str, ...]]:
    """Returns the pinyin of the dictionary, and without the tone sandhi of 一 and 不 if it has that."""
    from tfrecord_builder.labels import pinyin  # takes most of a second

    found = [token.lower() for token in pinyin.Reader().read(text)]
    plain = [_WITHOUT_SANDHI.get(character, token) for character, token in zip(text, found)]
    return list(dict.fromkeys([tuple(found), tuple(plain)]))


def _is_number(word: str) -> bool:
    return bool(_NUMBER.fullmatch(word)) and word.count(".") <= 1 and any(map(str.isdigit, word))


def _problem(text: str, given: Sequence[str], boost: Optional[float]) -> str:
    """Returns what is wrong with a hotword; empty if nothing is."""
    if not text:
        return "is empty"
    if boost is not None and boost <= 0:
        return f"boost is {boost:g}, which is not above 0"
    if given and len(given) != len(text):
        return f"{text} has {len(text)} characters and {len(given)} syllables"
    wrong = [word for word in given if not _is_syllable(word)]
    return f"{wrong[0]!r} is not a toned syllable" if wrong else ""


def _is_syllable(word: str) -> bool:
    """True for a toned syllable in any spelling, and for a single letter or digit, which is itself."""
    spelled = tokenisation.normalise_pinyin(word)
    is_toned = len(spelled) == 1 and syllables.split_syllable(spelled[0]) is not None
    return (is_toned and word[-1] in syllables.TONES) or (len(word) == 1 and word.isalnum())
