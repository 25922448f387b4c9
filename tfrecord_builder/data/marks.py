"""Punctuation marks: the ids of the marks, and how they are combined with the characters that they follow.

split("你好，世界。")              ->  (["你", "好", "世", "界"], [0, 1, 0, 2])
join("你好世界", [0, 1, 0, 2])  ->  "你好，世界。"
unify('他说:"好!"花了3.5元……')  ->  "他说：好！花了3.5元。"
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from tfrecord_builder.data import vocabulary

# The mark after a character, indexed by its id; most characters are followed by no mark (id 0).
MARKS = ("", "，", "。", "？", "！", "、", "；", "：")
_IDS = {mark: index for index, mark in enumerate(MARKS) if mark}
_STRONGEST_FIRST = "？！。；：，、"  # if several marks follow a character, only the strongest is kept
_RANKS = [len(MARKS), *map(_STRONGEST_FIRST.index, MARKS[1:])]
_CHARACTER = re.compile(rf"{vocabulary.UNKNOWN}|\S")
# Marks in NFKC text. A point, comma or colon inside a Latin word, number or address is not a mark.
PATTERN = re.compile(
    r"(\.{2,}|…+|—{2,}|[-―]{2,}|~+|[，。、？！；：?!;]|(?<![0-9A-Za-z])[.,:](?!//)|[.,:](?![0-9A-Za-z/]))"
)
_MARKED_END = re.compile(rf"{PATTERN.pattern}[^\w\s]*$")
_UNIFIED = dict(zip(",.?!;:…~—―-", "，。？！；：。。，，，"))  # the keys are first characters of marks


def split(text: str) -> tuple[list[str], list[int]]:
    """Splits a text with marks into its characters and the id of the mark after each character.

    Spaces are dropped, `<unk>` is one character, and marks before the first character are ignored. Any
    other symbol, such as a quotation mark, counts as a character.
    """
    characters: list[str] = []
    mark_ids: list[int] = []
    for character in _CHARACTER.findall(text):
        if character not in _IDS:
            characters.append(character)
            mark_ids.append(0)
        elif characters:
            mark_ids[-1] = strongest(mark_ids[-1], _IDS[character])
    return characters, mark_ids


def strongest(*mark_ids: int) -> int:
    """Returns the id of the mark that is kept if several marks follow a character."""
    return min(mark_ids, key=_RANKS.__getitem__)


def join(text: str, mark_ids: Sequence[int]) -> str:
    """Returns the text with a mark after each character; a space after a mark is dropped.

    `mark_ids` has one id per character of the text, spaces not counted; `<unk>` is one character.
    """
    remaining = iter(mark_ids)
    marked = _CHARACTER.sub(lambda match: match[0] + MARKS[next(remaining)], text)
    return re.sub(f"(?<=[{_STRONGEST_FIRST}]) ", "", marked)


def unify_mark(mark: str) -> str:
    """Returns the mark in MARKS that stands for a match of PATTERN: 。 for an ellipsis, ， for a dash."""
    return _UNIFIED.get(mark[0], mark[0])


def unify(text: str) -> str:
    """Maps each mark to one in MARKS, converts the rest to NFKC, and drops quotation marks and brackets."""
    parts = enumerate(PATTERN.split(_compose(text)))
    unified = "".join(unify_mark(part) if index % 2 else part for index, part in parts)
    return "".join(character for character in unified if not is_quote(character))


def has_mark(text: str) -> bool:
    """Returns True if the text contains a mark of any kind; the point in 3.5 is not a mark."""
    return bool(PATTERN.search(_compose(text)))


def ends_with_mark(text: str) -> bool:
    """Returns True if nothing but quotation marks, brackets and symbols follows the last mark."""
    return bool(_MARKED_END.search(_compose(text)))


def _compose(text: str) -> str:
    """Converts everything but marks in MARKS to NFKC."""
    return re.sub(f"[^{_STRONGEST_FIRST}]+", lambda run: unicodedata.normalize("NFKC", run[0]), text)


def is_quote(character: str) -> bool:
    """Returns True for quotation marks and brackets."""
    return character in "\"'" or unicodedata.category(character) in ("Ps", "Pe", "Pi", "Pf")
