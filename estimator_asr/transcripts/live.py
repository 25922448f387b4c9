"""The transcript of audio that is still being spoken: it settles from its beginning.

A model of whole utterances recognises the segment that is being spoken again and again; one that streams goes
on with it, and has heard it but for the last chunk. A character is
settled once two results in a row have it (local agreement: Liu, Spanakis and Niehues 2020, section 3),
HOLD_SECONDS of audio follow it and its confidence is find_min_confidence, or its segment has ended; then it
never changes. Segments are those of pauses.py; audio without such a pause that is no longer than one segment
is in the end recognised as a whole, as transcriber.py does.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
from rapidfuzz.distance import Levenshtein

from estimator_asr.saved_model import statuses
from estimator_asr.transcripts import caption_lines, captions, pauses

STEP_SECONDS = 0.5  # of new audio, before a segment is recognised again
# Of the final text 0.6 % then differ from a whole recording's, without confidence 3.7 % (docs/results.md).
HOLD_SECONDS, MIN_CONFIDENCE = 0.8, 0.9
_UNCALIBRATED = (("scale", "1"), ("offset", "0"))  # fields of config.DecodeConfig
_MAX_ENDED = 2  # segments that wait, beyond which no audio should be added


def find_min_confidence(decode: Mapping[str, str]) -> float:
    """Returns the confidence with which characters settle, of export_info.ModelInfo.decode.

    It is MIN_CONFIDENCE, and what calibration has made of such a probability: whole sentences of dev, with
    few errors, say little of a sentence that has not ended.
    """
    scale, offset = (float(decode.get(f"confidence_{name}", default)) for name, default in _UNCALIBRATED)
    odds = (MIN_CONFIDENCE / (1 - MIN_CONFIDENCE)) ** scale * math.exp(offset)
    return max(MIN_CONFIDENCE, odds / (1 + odds))


class Window(NamedTuple):
    """What is to be recognised: its start in samples, float32 [num_samples], and whether it is a segment."""

    start: int
    waveform: np.ndarray
    has_ended: bool


class Update(NamedTuple):
    """The transcript so far: `stable` begins with that of the update before.

    Attributes:
        stable, partial: text that never changes, and the text after it.
        first, num_stable: how many characters were settled before this update, and are now.
        characters: those after them, as captions.join has them; a client replaces its own from `first` on.
    """

    stable: str
    partial: str
    first: int
    num_stable: int
    characters: list[dict]


class _Spoken(NamedTuple):
    """A character with its times in the recording; its text has the space before it."""

    text: str
    item: dict


class LiveTranscript:
    """Call `add` with audio as it comes and `end` at its end; recognise each `take`, and `update` with it.

    The transcript is whole when `take` returns None after the end.

    Attributes:
        is_over: whether the audio has ended.
        segments: those that have ended, captions.Segment each.
        stable: text that never changes; in the end that of all segments.
        num_samples: that were added.
        step_seconds: audio after which a segment that is being spoken is recognised again.
    """

    def __init__(
        self,
        sample_rate: int,
        make_detector: Optional[Callable[[], pauses.Detector]] = None,
        step_seconds: float = STEP_SECONDS,
        min_confidence: float = MIN_CONFIDENCE,
    ):
        """Arguments and errors as those of pauses.cut, and the first value of step_seconds.

        Below `min_confidence` a character settles only when its segment ends.
        """
        self._sample_rate, self.step_seconds, self._min_confidence = sample_rate, step_seconds, min_confidence
        self._cutter = pauses.Cutter(sample_rate, (make_detector or pauses.load_detector)())
        self._unread = np.empty(0, np.float32)  # less than a chunk
        self._head: Optional[list[np.ndarray]] = []  # all chunks, while the audio may be one segment
        self._ended: collections.deque[Window] = collections.deque()
        self.is_over = False
        self._last_end = 0  # of the window that was taken last, in samples
        self.stable, self._num_stable = "", 0
        self._settled: list[_Spoken] = []  # of the segment that has not ended
        self._candidates: list[_Spoken] = []  # what follows them in the last result
        self.segments: list[captions.Segment] = []
        self.num_samples = 0

    @property
    def is_full(self) -> bool:
        """Whether so many segments wait to be taken that no audio should be added."""
        return len(self._ended) > _MAX_ENDED

    @property
    def has_ended(self) -> bool:
        """Whether a segment waits that has ended."""
        return bool(self._ended)

    def add(self, samples: np.ndarray) -> None:
        """Adds audio, float32 [num_samples]."""
        self.num_samples += len(samples)
        samples = np.concatenate([self._unread, samples])
        whole = len(samples) // self._cutter.size * self._cutter.size
        for chunk in samples[:whole].reshape(-1, self._cutter.size):
            if self._head is not None:
                self._head.append(chunk)
            self._append(self._cutter.add(chunk))
        self._unread = samples[whole:].copy()
        if self._ended or self.num_samples > pauses.SEGMENT_SECONDS * self._sample_rate:
            self._head = None

    def end(self) -> None:
        """Ends the audio; what is left of it is the last segment."""
        self.is_over = True
        if self._head is not None and self.num_samples:
            return self._append([pauses.Piece(0, np.concatenate([*self._head, self._unread]))])
        if len(self._unread):
            self._append(self._cutter.add(self._unread))
        self._append(self._cutter.finish())

    def take(self) -> Optional[Window]:
        """Returns what is to be recognised next; None: more audio is needed."""
        if self._ended:
            return self._ended.popleft()
        if self.is_over:
            return self._keep_rest()
        piece = self._cutter.peek()
        end = piece.start + len(piece.waveform) if piece else 0
        if piece is None or end - self._last_end < self.step_seconds * self._sample_rate:
            return None
        self._last_end = end
        return Window(*piece, has_ended=False)

    def update(self, window: Window, result: dict) -> Update:
        """Adds the result of the window that was taken last, as recogniser.Recogniser.run has it."""
        start, end = (
            place / self._sample_rate for place in (window.start, window.start + len(window.waveform))
        )
        heard, first = _list_spoken(result, start), self._num_stable
        count = len(self._settled)
        if window.has_ended:
            middles = ((each.item["start"] + each.item["end"]) / 2 for each in self._settled)
            count = next((i for i, middle in enumerate(middles) if middle >= end), count)
        settled, later = self._settled[:count], self._settled[count:]
        rest = [] if later else heard[_find_end(settled, heard, start) :]
        if window.has_ended:
            self.segments.append(captions.Segment(start, end, _correct(result, heard, settled + rest, start)))
            agreed, self._settled = rest, later
        else:
            agreed = self._agree(rest, end - HOLD_SECONDS)
            self._settled = settled + agreed
        self._candidates = rest[len(agreed) :]
        self._num_stable += len(agreed)
        self.stable = _join(self.stable, agreed, not settled)
        whole = _join(self.stable, self._candidates, not (settled or agreed))
        items = [each.item for each in agreed + self._candidates]
        return Update(self.stable, whole[len(self.stable) :], first, self._num_stable, items)

    def _keep_rest(self) -> None:
        """What settled after the end of the last segment, and no later one has, becomes a part of it."""
        if self._settled and self.segments:
            last = self.segments[-1]
            heard = _list_spoken(last.result, last.start)
            kept, self._settled = heard + self._settled, []
            self.segments[-1] = last._replace(result=_correct(last.result, heard, kept, last.start))

    def _append(self, pieces) -> None:
        self._ended.extend(Window(*piece, has_ended=True) for piece in pieces)

    def _agree(self, rest: Sequence[_Spoken], end: float) -> list[_Spoken]:
        """Returns the first of `rest` that are sure, that the last result had too, and that end in time."""
        count = 0
        for new, old in zip(rest, self._candidates):
            is_sure = new.item["confidence"] >= self._min_confidence and new.item["end"] <= end
            if not is_sure or not _same(new, old):
                break
            count += 1
        return list(rest[:count])


def _join(text: str, spoken: Sequence[_Spoken], is_first: bool) -> str:
    """Adds characters to a text; the first of a segment may need a space before them."""
    added = "".join(each.text for each in spoken)
    return captions.join_texts([text, added]) if is_first else text + added


def _list_spoken(result: dict, start: float) -> list[_Spoken]:
    items = captions.shift_characters(captions.Segment(start, start, result))
    parts = caption_lines.locate(result["transcript"], items) or [item["character"] for item in items]
    return list(map(_Spoken, parts, items))


def _same(one: _Spoken, other: _Spoken) -> bool:
    return one.item["character"] == other.item["character"]


def _find_end(settled: Sequence[_Spoken], heard: Sequence[_Spoken], start: float) -> int:
    """Returns how many characters of a result are those that are settled, by their text, then their time.

    `start` is that of the result in seconds.
    """
    old, new = ([each.item["character"] for each in spoken] for spoken in (settled, heard))
    ends = [start, *(each.item["end"] for each in heard)]
    last = settled[-1].item["end"] if settled else start
    return min(
        range(len(ends)),
        key=lambda count: (Levenshtein.distance(old, new[:count]), abs(ends[count] - last)),
    )


def _correct(result: dict, heard: Sequence[_Spoken], kept: Sequence[_Spoken], start: float) -> dict:
    """Returns a result with the characters that are kept, where they are others than those that it has."""
    if len(heard) == len(kept) and all(map(_same, heard, kept)):
        return result
    times = {name: [round(each.item[name] - start, 3) for each in kept] for name in ("start", "end")}
    characters = [
        {**each.item, "start": first, "end": last} for each, first, last in zip(kept, *times.values())
    ]
    return {
        **result,
        "transcript": "".join(each.text for each in kept),
        "pinyin": " ".join(item["pinyin"] for item in characters),
        "status": statuses.OK if characters else result["status"],
        "confidence": sum(item["confidence"] for item in characters) / len(characters) if characters else 0.0,
        "characters": characters,
    }
