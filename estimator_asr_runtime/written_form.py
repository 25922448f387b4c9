"""Writes numbers, dates, amounts and spelled letters as people write them (docs/written-form.md).

    二零二六年十一月二十七日下午三点半  ->  2026年11月27日下午3点半

The rules are in web/shared/written_form.json, which web/shared/written_form.js also reads. At each character,
the first rule that matches there applies. A rule's regular expression uses only syntax that Python and
JavaScript share, and {name} in it stands for a part. A rule with "write" replaces the whole match, where {1}
is the converted first group; without "write", each group is converted in place, and the rest is unchanged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

from estimator_asr_runtime import errors

LAYOUT = 1
FILE = "written_form.json"
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web", "shared", FILE)
_DIGITS = str.maketrans("零〇幺一二两三四五六七八九", "0011223456789")
_UNITS = {"十": 10, "百": 100, "千": 1000}
_FULL = 10_000_000  # a larger number that is not a multiple of 10,000 is written with 万: 1234万5678


class Piece(NamedTuple):
    """A piece of the written form, and the range of input characters that it replaces."""

    written: str
    start: int
    end: int


def load(path: str = PATH) -> WrittenForm:
    """Reads the rules from a JSON file.

    Raises errors.UserError if the file cannot be read or was written by another release.
    """
    try:
        with open(path, encoding="utf-8") as file:
            rules = json.load(file)
    except (OSError, ValueError) as error:
        raise errors.UserError(f"{path} cannot be read ({error}); export the model again") from error
    if not isinstance(rules, dict) or rules.get("layout") != LAYOUT:
        raise errors.UserError(f"{path} was written by another release; export the model again")
    return WrittenForm(rules)


class WrittenForm:
    """Applies the rules of one written_form.json."""

    def __init__(self, rules: Mapping):
        sources = [_expand(rule["find"], rules["parts"]) for rule in rules["rules"]]
        templates = (rule.get("write") for rule in rules["rules"])
        self._rules = list(zip(map(re.compile, sources), templates))
        self._start = re.compile(rules["starts"])
        self._span = re.compile(f"{rules['spans']}+")
        self._longest_follower = rules["longest_follower"]
        known = "".join(sorted(c for c in set("".join(sources)) if c > "~"))
        self._foreign = re.compile(f"[^{known}A-Za-z ]")

    def write(self, text: str) -> str:
        """Returns the written form of a text."""
        return "".join(piece.written for piece in self.rewrite(text))

    def rewrite(self, text: str) -> list[Piece]:
        """Returns the pieces of the written form in order; their ranges cover the text without gaps."""
        pieces, end = [], 0
        changes = [piece for _, changes in self._scan(text) for piece in changes]
        for piece in [*changes, Piece("", len(text), len(text))]:
            unchanged = Piece(text[end : piece.start], end, piece.start)
            pieces += [part for part in (unchanged, piece) if part.start < part.end]
            end = piece.end
        return pieces

    def settled_length(self, text: str) -> int:
        """Returns how many characters of a growing text have a written form that later text cannot change."""
        settled = reach = span_end = 0
        for start, _ in self._scan(text):
            if start < span_end:  # inside a span whose reach is already known
                continue
            settled = start if start >= reach else settled
            span_end, end = self._find_reach(text, start)
            reach = max(reach, end)
            if reach >= len(text):
                return settled
        return len(text)

    def _scan(self, text: str) -> Iterator[tuple[int, list[Piece]]]:
        """Yields each position where a rule could match, and the changes by the first rule that does."""
        at = self._start.search(text)
        while at:
            start = at.start()
            end, changes = self._apply(text, start)
            yield start, changes
            at = self._start.search(text, end)

    def _apply(self, text: str, start: int) -> tuple[int, list[Piece]]:
        for pattern, template in self._rules:
            match = pattern.match(text, start)
            if match:
                return match.end(), _change(match, template)
        return start + 1, []

    def _find_reach(self, text: str, start: int) -> tuple[int, int]:
        """Returns the ends of the span at `start` and of the text that decides which rules match in it."""
        span = self._span.match(text, start)
        span_end = span.end() if span else start + 1
        end = span_end + self._longest_follower
        foreign = self._foreign.search(text, start, end)  # no rule matches beyond such a character
        return span_end, foreign.start() if foreign else end


def _expand(pattern: str, parts: Mapping[str, str]) -> str:
    """Replaces each {name} by the part of that name, in which names are replaced, too."""
    return re.sub("{([a-z_]+)}", lambda name: _expand(parts[name[1]], parts), pattern)


def _change(match: re.Match, template: Optional[str]) -> list[Piece]:
    if template is None:
        groups = range(1, match.re.groups + 1)
        return [Piece(_convert(match[i]), *match.span(i)) for i in groups if match[i]]
    replacement = re.sub("{([0-9])}", lambda group: _convert(match[int(group[1])]), template)
    return [Piece(replacement, *match.span())]


def _convert(text: str) -> str:
    """Converts a group's text: a number in hanzi, letters, spaces, a minus sign, or another word."""
    if re.fullmatch("[A-Za-z ]*", text):
        return text.replace(" ", "").upper()
    if re.search("[^零〇幺一二两三四五六七八九十百千万亿点]", text):
        return text.replace("负", "-")
    return ".".join(_write_number(part) for part in text.split("点"))


def _write_number(text: str) -> str:
    for unit in "亿万":
        head, separator, tail = text.rpartition(unit)
        if separator:
            return _join(_write_number(head), unit, tail)
    return str(_evaluate(text)) if re.search("[十百千]", text) else text.translate(_DIGITS)


def _join(head: str, unit: str, tail: str) -> str:
    digits = _write_number(tail.lstrip("零〇"))
    if unit == "万" and len(tail) > 1 and int(head) < _FULL // 10_000:
        return str(int(head) * 10_000 + int(digits))
    return head + unit + "零" * (tail[:1] in ("零", "〇")) + digits


def _evaluate(text: str) -> int:
    """Returns the value of a number below 10,000; 一百五 is 150, because no 零 precedes the last digit."""
    total, digit, unit = 0, 0, 1
    for character in text:
        if character in _UNITS:
            unit = _UNITS[character]
            total += (digit or 1) * unit
            digit = 0
        else:
            digit = int(character.translate(_DIGITS))
            unit = unit if digit else 10
    return total + digit * max(unit // 10, 1)
