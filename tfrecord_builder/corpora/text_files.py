"""Reads the text files of a corpus line by line: UTF-8, UTF-16 with a byte order mark, or GB18030.

Spreadsheet programs write UTF-16 and GB18030. Much text in other encodings (Latin-1, Cyrillic, Korean) also
decodes as GB18030, but into rare characters. GB18030 is therefore accepted only if common hanzi are frequent
in the result. charset-normalizer is not used, because it mistakes GB18030 for Big5, and Cyrillic for GB18030,
in files with a single line, such as many transcripts.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import io
from collections.abc import Iterator
from typing import BinaryIO, Optional

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.storage import files

_ACCEPTED = "UTF-8, UTF-16 with a byte order mark, or Chinese text in GB18030 (GBK)"
_MAX_NOTES = 10  # maximum number of warnings about encodings; some corpora have one file per utterance
_BLOCK_BYTES = 1 << 20
_MIN_HANZI = 0.8  # minimum fraction of hanzi among non-ASCII letters; decoded Japanese also contains kana
_MIN_FREQUENT = 0.1  # minimum fraction of _FREQUENT letters; about 0.5 in Chinese text, 0.01 in misread text
_FREQUENT = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行"
    "所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力"
    "它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应向头文体政美相见被利什二等产或"
    "新己制身果加西月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条"
)


def read_lines(path: str, remedy: str = "see docs/corpora.md for the layout") -> Iterator[str]:
    """Yields a text file's lines without line breaks; errors about unreadable files end with `remedy`.

    Raises errors.UserError if the file does not exist, cannot be read, or has an unsupported encoding.
    """
    try:
        with files.open_binary(path) as file:
            # If the encoding is unsupported, reading the file as UTF-8 fails at the first bad byte.
            encoding = find_encoding(file) or "utf-8"
            file.seek(0)
            if not encoding.startswith("utf-8"):
                logging.log_first_n(logging.WARNING, "%s is read as %s", _MAX_NOTES, path, encoding.upper())
            with io.TextIOWrapper(file, encoding) as lines:
                for line in lines:
                    yield line.removesuffix("\n")
    except FileNotFoundError:
        raise errors.UserError(f"{path}: file does not exist; {remedy}.") from None
    except OSError as error:
        raise errors.UserError(
            f"{path} cannot be read as a text file ({error.strerror}); {remedy}."
        ) from error
    except UnicodeDecodeError:
        raise errors.UserError(
            f"{path}: byte {_find_bad_byte(path)} is not UTF-8. The file must be {_ACCEPTED}; "
            "save it as UTF-8."
        ) from None


def find_encoding(file: BinaryIO) -> Optional[str]:
    """Returns a file's encoding, or None if it is unsupported; the file must be at its first byte."""
    if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    with contextlib.suppress(UnicodeDecodeError):
        for _ in _decode(file, "utf-8"):
            pass
        return "utf-8-sig"
    counts: collections.Counter[str] = collections.Counter()
    with contextlib.suppress(UnicodeDecodeError):
        for text in _decode(file, "gb18030"):
            counts.update(text)
        return "gb18030" if _is_chinese(counts) else None
    return None


def _decode(file: BinaryIO, encoding: str) -> Iterator[str]:
    file.seek(0)
    return codecs.iterdecode(iter(lambda: file.read(_BLOCK_BYTES), b""), encoding)


def _is_chinese(counts: collections.Counter[str]) -> bool:
    letters = {letter: count for letter, count in counts.items() if letter > "\x7f" and letter.isalpha()}
    num_letters = sum(letters.values())
    num_hanzi = sum(count for letter, count in letters.items() if "\u4e00" <= letter <= "\u9fff")
    num_frequent = sum(count for letter, count in letters.items() if letter in _FREQUENT)
    return num_hanzi > _MIN_HANZI * num_letters and num_frequent > _MIN_FREQUENT * num_letters


def _find_bad_byte(path: str) -> int:
    with files.open_binary(path) as file:
        try:
            file.read().decode()
        except UnicodeDecodeError as error:
            return error.start
    return 0
