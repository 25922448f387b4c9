"""Writes live text as people read it: adds marks, and writes numbers in digits, as the characters settle.

A mark is final once FOLLOWERS characters have followed its character, or the segment has ended. The text
settles up to the last character whose mark is final, except for a number at the end, which may continue.
Settled text never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from estimator_asr.serving.transcripts import captions, live, written_text

FOLLOWERS = 5  # number of characters after which a mark is final


class LiveWriting:
    """Updates a live transcript, and writes its text with marks and with numbers in digits.

    Attributes:
        written: `first`, `num_stable` and `characters` (as in live.LiveUpdate) for the written text after the
            last update. Characters include their marks; a number is one character (see written_text.write).
    """

    def __init__(self, transcript: live.LiveTranscript, sample_rate: int, punctuate):
        """Starts an empty text; `punctuate` is the recogniser for the signature "punctuate"."""
        self._transcript, self._sample_rate, self._punctuate = transcript, sample_rate, punctuate
        self._stable = ""
        self._items: list[dict] = []  # characters of the unfinished segment, each with a mark
        self._num_before = self._text_before = 0  # number of characters, and length of text, before the items
        self._num_final = 0  # number of leading items whose marks are final
        self._num_written = 0  # length of the items' text (with marks) whose written form has settled
        self.written = {"first": 0, "num_stable": 0, "characters": []}

    def add_marks(self, window: live.Window, result: dict) -> dict:
        """Returns the result with marks, which results of streaming models lack."""
        if "punctuated" in result:
            return result
        segment = captions.make_segment(window, self._sample_rate, result)
        (segment,) = written_text.find_marks([segment], self._punctuate)
        return segment.result

    def update(self, window: live.Window, result: dict) -> live.LiveUpdate:
        """Updates the transcript as LiveTranscript.update does; returns the update with the written text.

        Its `first` is the index of the first character whose mark was not final before.
        """
        result = self.add_marks(window, result)
        if result["characters"] and not window.has_ended:  # the mark after the last character would flicker
            *others, last = result["characters"]
            result = {**result, "characters": [*others, {**last, "mark": ""}]}
        update = self._transcript.update(window, result)
        items = self._items = self._renew_marks(update, result) + update.characters
        text = (update.stable + update.partial)[self._text_before :]
        marked = written_text.mark_characters(text, items)
        marked = marked or [item["character"] + item["mark"] for item in items]
        first, num_settled = self._num_final, update.num_stable - self._num_before
        self._num_final = max(first, min(num_settled, len(items) - FOLLOWERS))
        partial = self._settle(marked, window.has_ended)
        texts = {"stable": self._stable, "partial": partial, "characters": items[first:]}
        update = update._replace(first=self._num_before + first, **texts)
        if window.has_ended:
            self._end_segment(len(text))
        return update

    def _renew_marks(self, update: live.LiveUpdate, result: dict) -> list[dict]:
        """Returns the items that had already settled; takes any marks that are not final from the result."""
        items = self._items[: update.first - self._num_before]
        recognised = result["characters"][: len(result["characters"]) - len(update.characters)]
        for back in range(1, min(len(items) - self._num_final, len(recognised)) + 1):
            if recognised[-back]["character"] == items[-back]["character"]:
                items[-back] = {**items[-back], "mark": recognised[-back]["mark"]}
        return items

    def _settle(self, marked: Sequence[str], has_ended: bool) -> str:
        """Appends newly settled written text to the settled text; returns the unsettled text after it.

        `marked` has each item with any space before it and any mark after it.
        """
        text = "".join(marked if has_ended else marked[: self._num_final])
        length = len(text) if has_ended else self._punctuate.form.settled_length(text)
        pieces = written_text.list_pieces(marked, self._punctuate.form)
        pieces = [piece for piece in pieces if piece.end > self._num_written]
        settled = [piece for piece in pieces if piece.end <= length]
        self._stable = self._append(settled)
        self._num_written = settled[-1].end if settled else self._num_written
        first = self.written["num_stable"]
        num_stable = first + len(written_text.list_characters(settled, self._items))
        characters = written_text.list_characters(pieces, self._items)
        self.written = {"first": first, "num_stable": num_stable, "characters": characters}
        return self._append(pieces[len(settled) :])[len(self._stable) :]

    def _append(self, pieces: Sequence[written_text.WrittenPiece]) -> str:
        """Returns the settled text and these pieces; a segment's first piece may need a space before it."""
        added = "".join(piece.text for piece in pieces)
        return self._stable + added if self._num_written else captions.join_texts([self._stable, added])

    def _end_segment(self, num_characters: int) -> None:
        """Copies the marks that were shown to the ended segment, and starts the next segment."""
        segments, items = self._transcript.segments, self._items
        if len(segments[-1].result["characters"]) == len(items):
            segments[-1] = written_text.replace_marks(segments[-1], (item["mark"] for item in items))
        self._num_before += len(items)
        self._text_before += num_characters
        self._items, self._num_final, self._num_written = [], 0, 0
