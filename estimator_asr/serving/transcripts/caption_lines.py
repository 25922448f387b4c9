"""Breaks timed transcripts into caption lines.

A line ends at each pause, and at the end of a sentence if the line has then been on screen for a second. A
line that is still too long is cut in two, repeatedly: at a long gap, preferably after punctuation and near
the middle, never within a Latin word.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder.data import vocabulary

_WIDE, _NARROW = 18, 42  # maximum number of characters per line, for hanzi and for Latin text
_LONGEST = 7.0  # maximum seconds per line
_PAUSE = 0.7  # seconds; a longer gap between the emissions of two characters is a pause
# CTC emits a character somewhere within its syllable, so a line begins _LEAD seconds before its first
# emission and ends _TAIL seconds after its last.
_LEAD, _TAIL = 0.2, 0.4
_SHORTEST = 1.0  # minimum seconds that a line stays on screen, unless the next line begins sooner
_SENTENCE_ENDS, _CLAUSE_ENDS = tuple("。！？；.!?;…"), tuple("，、：,:")
_CLAUSE_SECONDS = 0.5  # a gap after punctuation counts as this many seconds longer


class Line(NamedTuple):
    """One caption; successive captions do not overlap."""

    start_ms: int
    end_ms: int
    text: str


class _Unit(NamedTuple):
    """A character or token, with any spaces before it; times are seconds from the start of the recording."""

    text: str
    start: float
    end: float


def split(spans: Iterable[tuple[float, float, str, Sequence[dict]]]) -> list[Line]:
    """Returns the caption lines for a recording; each line contains text and lasts at least a millisecond.

    `spans` has the start, end, transcript and characters of each segment, in chronological order. Characters
    are dicts with character, start and end. All times are seconds from the start of the recording.
    """
    drafts = []
    for start, end, transcript, characters in spans:
        units = _align(transcript, characters) or _spread(transcript, start, end)
        drafts += [(start, end, line) for part in _part(units) for line in _halve(part)]
    starts = [max(start, line[0].start - _LEAD) for start, _, line in drafts] + [float("inf")]
    lines, free_ms = [], 0
    for (_, end, line), start, next_start in zip(drafts, starts, starts[1:]):
        start_ms = max(free_ms, _to_ms(start))
        stop = min(max(line[-1].end + _TAIL, start + _SHORTEST), end, next_start)
        free_ms = max(start_ms + 1, _to_ms(stop))
        lines.append(Line(start_ms, free_ms, " ".join("".join(unit.text for unit in line).split())))
    return lines


def needs_space(before: str, after: str) -> bool:
    """Returns True if two characters need a space between them: neither is wide, and neither is a space."""
    return not any(is_wide(character) or character.isspace() for character in (before, after))


def locate(transcript: str, characters: Sequence[dict]) -> Optional[list[str]]:
    """Splits a transcript into one part per character; returns None if the characters do not match it.

    Each part includes the spaces before its character. If a token is a space, its part is empty.
    """
    parts, place = [], 0
    for item in characters:
        text = item["character"].replace(vocabulary.SPACE, "").strip(vocabulary.WORD_START)
        start = transcript.find(text, place)
        if start < 0 or transcript[place:start].strip():
            return None
        parts.append(transcript[place : start + len(text)] if text else "")
        place += len(parts[-1])
    return None if transcript[place:].strip() else parts


def _align(transcript: str, characters: Sequence[dict]) -> Optional[list[_Unit]]:
    parts = locate(transcript, characters)
    if parts is None:
        return None
    return [_Unit(part, item["start"], item["end"]) for part, item in zip(parts, characters) if part]


def _spread(transcript: str, start: float, end: float) -> list[_Unit]:
    """Divides the time of a segment equally among the characters of its transcript."""
    seconds = (end - start) / max(len(transcript), 1)
    pending, units = "", []
    for index, character in enumerate(transcript):
        pending += character
        if not character.isspace():
            units.append(_Unit(pending, start + seconds * index, start + seconds * (index + 1)))
            pending = ""
    return units


def _part(units: Sequence[_Unit]) -> list[list[_Unit]]:
    """Splits units into lines at every pause, and at sentence ends _SHORTEST seconds after a line began."""
    parts = [list(units[:1])] if units else []
    for before, unit in zip(units, units[1:]):
        is_sentence = before.text.endswith(_SENTENCE_ENDS) and unit.start - parts[-1][0].start >= _SHORTEST
        if (is_sentence or unit.start - before.end > _PAUSE) and _may_break(before, unit):
            parts.append([])
        parts[-1].append(unit)
    return parts


def _halve(units: Sequence[_Unit]) -> list[list[_Unit]]:
    """Splits units in two, recursively, until each part fits on a line or cannot be split any further."""
    width = sum(map(_width, units))
    fits = width <= 1 and units[-1].end - units[0].start <= _LONGEST
    places = [i for i in range(1, len(units)) if _may_break(units[i - 1], units[i])]
    if fits or not places:
        return [list(units)]
    place = max(places, key=lambda i: _cut_quality(units, i, width))
    return _halve(units[:place]) + _halve(units[place:])


def _cut_quality(units: Sequence[_Unit], place: int, width: float) -> float:
    gap = units[place].start - units[place - 1].end
    shorter = min(units[place].start - units[0].start, units[-1].end - units[place].start)
    is_clause = units[place - 1].text.endswith(_SENTENCE_ENDS + _CLAUSE_ENDS) and shorter >= _SHORTEST
    return gap + _CLAUSE_SECONDS * is_clause - abs(sum(map(_width, units[:place])) / width - 0.5)


def _may_break(before: _Unit, after: _Unit) -> bool:
    """Returns True if a line may end between units: at a space or wide character, not before punctuation."""
    first, last = after.text[0], before.text[-1]
    if first.isspace() or last.isspace():
        return True
    is_punctuation = first in _SENTENCE_ENDS + _CLAUSE_ENDS
    return not is_punctuation and (is_wide(first) or is_wide(last))


def is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F")


def _width(unit: _Unit) -> float:
    return sum(1 / (_WIDE if is_wide(character) else _NARROW) for character in unit.text)


def _to_ms(seconds: float) -> int:
    return max(0, round(1000 * seconds))
