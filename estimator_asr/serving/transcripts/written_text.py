"""Writes transcripts as people read them: with punctuation marks, and with numbers in digits.

An export with a punctuation model returns a mark for each character of an utterance. If a recording has
several segments, the marks are found again in the text of all segments, because a mark depends on the
characters before and after it. The written form (estimator_asr_runtime/written_form.py) of each segment is
found separately.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.transcripts import caption_lines, captions

FORMS = WRITTEN, PLAIN = "written", "plain"  # plain: as recognised, without marks
# The punctuation model reads windows of _WINDOW characters, which begin _STEP characters apart.
# A mark comes from the window in which its character is closest to the middle.
_WINDOW, _STEP, _WINDOWS_AT_ONCE = 128, 112, 16


class WrittenPiece(NamedTuple):
    """A part of a written text, such as a character with its mark, or a number."""

    text: str  # includes any space before it
    first: int  # index of the first character from which the text was made
    last: int  # index of the last character from which the text was made
    end: int  # offset of the piece's end in the text with marks, from which the written form was made


def add(transcript: captions.Transcript, punctuate) -> captions.Transcript:
    """Adds the written text to a transcript; does nothing if `punctuate` (see find_marks) is None."""
    if punctuate is None:
        return transcript
    segments = transcript.segments
    if len(segments) > 1:
        segments = find_marks(segments, punctuate)
    written_segments = [write(segment, punctuate.form) for segment in segments]
    return transcript._replace(segments=segments, written=written_segments)


def find_marks(segments: Sequence[captions.TranscriptSegment], punctuate) -> list[captions.TranscriptSegment]:
    """Returns a recording's segments with the marks that their characters have in the text of all segments.

    `punctuate` is the recogniser.Recogniser for the signature "punctuate".
    """
    items = captions.list_characters(segments)
    pauses = recogniser.find_pauses(items)
    marks = iter(_list_marks([item["character"] for item in items], pauses, punctuate))
    return [replace_marks(segment, marks) for segment in segments]


def write(segment: captions.TranscriptSegment, form) -> captions.TranscriptSegment:
    """Returns the segment with the written text as its transcript, and its pieces as its characters.

    `form` is the written_form.WrittenForm that has the rules for numbers. A segment whose characters do not
    match its transcript remains as it is.
    """
    items = segment.result["characters"]
    marked = mark_characters(segment.result["transcript"], items)
    if not marked:
        return segment
    pieces = [piece for piece in list_pieces(marked, form) if piece.text.strip()]
    characters = list_characters(pieces, items)
    text = "".join(piece.text for piece in pieces)
    return segment._replace(result={**segment.result, "transcript": text, "characters": characters})


def mark_characters(transcript: str, items: Sequence[dict]) -> list[str]:
    """Returns each character with any space before it and any mark after it; no space follows a mark.

    If the characters do not match the transcript, returns [].
    """
    marked, follows_mark = [], False
    for part, item in zip(caption_lines.locate(transcript, items) or (), items):
        part = part.lstrip() if follows_mark else part
        marked.append(part + item["mark"])
        follows_mark = bool(item["mark"]) or (follows_mark and not part)
    return marked


def list_pieces(marked: Sequence[str], form) -> list[WrittenPiece]:
    """Returns the written form of a text in pieces; for `marked`, see mark_characters; for `form`, write."""
    owners = [index for index, part in enumerate(marked) for _ in part]
    pieces: list[WrittenPiece] = []
    for text, start, end in _split("".join(marked), owners, form):
        piece = WrittenPiece(text, owners[start], owners[end - 1], end)
        if pieces and piece.first <= pieces[-1].last:  # a mark belongs to the number before it
            last = pieces.pop()
            piece = piece._replace(text=last.text + text, first=last.first)
        pieces.append(piece)
    return pieces


def list_characters(pieces: Sequence[WrittenPiece], items: Sequence[dict]) -> list[dict]:
    """Returns the pieces, without spaces, as characters with the times of the items that they come from."""
    return [
        {
            "character": piece.text.strip(),
            "start": items[piece.first]["start"],
            "end": items[piece.last]["end"],
        }
        for piece in pieces
        if piece.text.strip()
    ]


def _split(text: str, owners: Sequence[int], form) -> Iterator[tuple[str, int, int]]:
    """Yields written texts with their ranges in `text`, one per changed range and one per other character."""
    for piece, start, end in form.rewrite(text):
        if piece != text[start:end]:
            yield piece, start, end
            continue
        for _, group in itertools.groupby(range(start, end), owners.__getitem__):
            places = list(group)
            yield text[places[0] : places[-1] + 1], places[0], places[-1] + 1


def _list_marks(characters: Sequence[str], pauses: np.ndarray, punctuate) -> list[str]:
    """Returns the mark after each character; `pauses` are the seconds of silence after each, float32."""
    marks: list[str] = []
    starts = range(0, max(len(characters) + _STEP - _WINDOW, min(len(characters), 1)), _STEP)
    padded = np.pad(pauses, (0, _WINDOW))
    for first in range(0, len(starts), _WINDOWS_AT_ONCE):
        batch = starts[first : first + _WINDOWS_AT_ONCE]
        windows = [" ".join(characters[start : start + _WINDOW]).encode() for start in batch]
        pieces = [padded[start : start + _WINDOW] for start in batch]
        outputs = punctuate.run({"characters": np.array(windows, object), "pauses": np.stack(pieces)})
        for start, window_marks in zip(batch, outputs["marks"]):
            # A window's marks are used from the middle of its overlap with the previous window.
            first_place = start + (_WINDOW - _STEP) // 2 if start else 0
            marks[first_place:] = window_marks[first_place - start :]
    return marks


def replace_marks(segment: captions.TranscriptSegment, marks: Iterator[str]) -> captions.TranscriptSegment:
    result = segment.result
    items = [{**item, "mark": mark} for item, mark in zip(result["characters"], marks)]
    punctuated = "".join(mark_characters(result["transcript"], items)) or result["transcript"]
    return segment._replace(result={**result, "punctuated": punctuated, "characters": items})
