"""The transcript of live audio, whose text gradually settles (becomes final) while the speaker is talking.

A model for whole utterances recognises an unfinished segment again and again; a streaming model processes
only the segment's new audio, except for the last chunk. A character settles, and then never changes, once its
segment ends, or once two successive results contain it (local agreement: Liu, Spanakis and Niehues 2020,
section 3), HOLD_SECONDS of audio follow it, and its confidence is at least find_min_confidence(). Segments
are cut as in pauses.py; if the audio fits into one segment and has no pause that ends a segment, it is
recognised as a whole when it ends, as in transcriber.py.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
from rapidfuzz.distance import Levenshtein

from estimator_asr.exporting.saved_model import export_info, statuses
from estimator_asr.serving.transcripts import caption_lines, captions, pauses

STEP_SECONDS = 0.5  # seconds of new audio before a segment is recognised again
# These values make the final text differ by 0.6 % from the whole recording's transcript; a hold of 0.9 s
# without a minimum confidence made it differ by 3.7 % (docs/experiments/serving.md).
HOLD_SECONDS, MIN_CONFIDENCE = 0.8, 0.9
_MAX_ENDED = 2  # no audio should be added while more than this many ended segments are waiting


def find_min_confidence(decode: Mapping[str, str]) -> float:
    """Returns the confidence that a character needs to settle; `decode` is export_info.ModelInfo.decode.

    Confidences must reach MIN_CONFIDENCE both before and after calibration: calibration uses whole dev
    sentences, which have few errors, so calibrated confidences are too high for an unfinished sentence.
    """
    scale, offset = float(decode.get("confidence_scale", 1)), float(decode.get("confidence_offset", 0))
    odds = (MIN_CONFIDENCE / (1 - MIN_CONFIDENCE)) ** scale * math.exp(offset)
    return max(MIN_CONFIDENCE, odds / (1 + odds))


class Window(NamedTuple):
    """Audio to recognise: its start in samples, its waveform, and whether its segment has ended."""

    start: int
    waveform: np.ndarray  # float32 [num_samples]
    has_ended: bool


class LiveUpdate(NamedTuple):
    """The transcript so far; `stable` always begins with the previous update's `stable`.

    Attributes:
        stable, partial: text that never changes again, and the text after it, which may change.
        first, num_stable: number of settled characters before this update, and after it.
        characters: all characters from index `first` on, in the format of captions.join; they replace the
            client's characters from that index on.
    """

    stable: str
    partial: str
    first: int
    num_stable: int
    characters: list[dict]


class _Character(NamedTuple):
    """A character; `text` includes any space before it, and `item` contains its times in the recording."""

    text: str
    item: dict


class LiveTranscript:
    """The transcript of one live recording, built from its audio and the model's results.

    Call `add` as audio arrives and `end` when the audio ends. Recognise each window that `take` returns, and
    pass its result to `update`. The transcript is complete when `take` returns None after `end`.
    """

    def __init__(self, info: export_info.ExportInfo, is_streaming: bool):
        """Starts an empty transcript for results from an export; see pauses.load_detector for the exceptions.

        If `is_streaming` is True, unfinished segments are recognised chunk by chunk; otherwise, they are
        recognised again after every STEP_SECONDS of new audio.
        """
        self._sample_rate = sample_rate = info.frontend.sample_rate
        # Seconds of new audio after which an unfinished segment is recognised again.
        self.step_seconds = info.chunk_seconds if is_streaming else STEP_SECONDS
        self._min_confidence = find_min_confidence(info.acoustic.decode)
        self._cutter = pauses.Cutter(sample_rate, pauses.load_detector())
        self._unread = np.empty(0, np.float32)  # samples that do not fill a chunk yet
        self._head: Optional[list[np.ndarray]] = []  # all chunks, while the audio may still fit one segment
        self._ended: collections.deque[Window] = collections.deque()
        self.is_over = False  # True once the audio has ended
        self._last_end = 0  # end of the last interim window, in samples
        self.stable, self._num_stable = "", 0  # settled text, and its number of characters
        self._settled: list[_Character] = []  # settled characters of the unfinished segment
        self._candidates: list[_Character] = []  # characters in the last result that have not settled
        self.segments: list[captions.TranscriptSegment] = []  # the segments that have ended
        self.num_samples = 0  # number of samples added so far

    @property
    def is_full(self) -> bool:
        """True if too many ended segments are waiting for `take`, so no audio should be added now."""
        return len(self._ended) > _MAX_ENDED

    @property
    def has_ended(self) -> bool:
        """True if an ended segment is waiting for `take`."""
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
        """Ends the audio; the audio after the last cut becomes the last segment."""
        self.is_over = True
        if self._head is not None and self.num_samples:
            return self._append([pauses.Piece(0, np.concatenate([*self._head, self._unread]))])
        if len(self._unread):
            self._append(self._cutter.add(self._unread))
        self._append(self._cutter.finish())

    def take(self) -> Optional[Window]:
        """Returns the next window to recognise, or None if more audio is needed or nothing is left."""
        if self._ended:
            return self._ended.popleft()
        if self.is_over:
            return self._extend_last_segment()
        piece = self._cutter.peek()
        end = piece.start + len(piece.waveform) if piece else 0
        if piece is None or end - self._last_end < self.step_seconds * self._sample_rate:
            return None
        self._last_end = end
        return Window(*piece, has_ended=False)

    def update(self, window: Window, result: dict) -> LiveUpdate:
        """Adds the result (see recogniser.Recogniser.run) for the window that `take` returned last."""
        start = window.start / self._sample_rate
        end = (window.start + len(window.waveform)) / self._sample_rate
        recognised, first = _list_characters(result, start), self._num_stable
        count = len(self._settled)
        if window.has_ended:
            middles = ((item["start"] + item["end"]) / 2 for _, item in self._settled)
            count = next((i for i, middle in enumerate(middles) if middle >= end), count)
        settled, later = self._settled[:count], self._settled[count:]
        unsettled = [] if later else recognised[_find_end(settled, recognised, start) :]
        if window.has_ended:
            result = _correct(result, recognised, settled + unsettled, start)
            self.segments.append(captions.TranscriptSegment(start, end, result))
            agreed, self._settled = unsettled, later
        else:
            agreed = self._agree(unsettled, end - HOLD_SECONDS)
            self._settled = settled + agreed
        self._candidates = unsettled[len(agreed) :]
        self._num_stable += len(agreed)
        self.stable = _join(self.stable, agreed, not settled)
        whole = _join(self.stable, self._candidates, not (settled or agreed))
        items = [character.item for character in agreed + self._candidates]
        return LiveUpdate(self.stable, whole[len(self.stable) :], first, self._num_stable, items)

    def _extend_last_segment(self) -> None:
        """Appends to the last segment any settled characters that lie after its end."""
        if self._settled and self.segments:
            last = self.segments[-1]
            recognised = _list_characters(last.result, last.start)
            extended, self._settled = recognised + self._settled, []
            self.segments[-1] = last._replace(result=_correct(last.result, recognised, extended, last.start))

    def _append(self, pieces) -> None:
        self._ended.extend(Window(*piece, has_ended=True) for piece in pieces)

    def _agree(self, unsettled: Sequence[_Character], end: float) -> list[_Character]:
        """Returns leading characters that match the previous result, are confident and end before `end` s."""
        agreed = itertools.takewhile(
            lambda pair: _same(*pair)
            and pair[0].item["confidence"] >= self._min_confidence
            and pair[0].item["end"] <= end,
            zip(unsettled, self._candidates),
        )
        return [new for new, _ in agreed]


def _join(text: str, characters: Sequence[_Character], is_first: bool) -> str:
    """Appends characters to a text; a segment's first characters may need a space before them."""
    added = "".join(character.text for character in characters)
    return captions.join_texts([text, added]) if is_first else text + added


def _list_characters(result: dict, start: float) -> list[_Character]:
    items = captions.shift_characters(captions.TranscriptSegment(start, start, result))
    parts = caption_lines.locate(result["transcript"], items) or [item["character"] for item in items]
    return list(map(_Character, parts, items))


def _same(one: _Character, other: _Character) -> bool:
    return one.item["character"] == other.item["character"]


def _find_end(settled: Sequence[_Character], recognised: Sequence[_Character], start: float) -> int:
    """Returns the length of the prefix of `recognised` whose text is closest to that of `settled`.

    If several prefixes are equally close, the one with the closest end time is chosen. `start` is the time in
    seconds at which `recognised` begins.
    """
    old, new = ([character.item["character"] for character in row] for row in (settled, recognised))
    ends = [start, *(character.item["end"] for character in recognised)]
    last = settled[-1].item["end"] if settled else start
    return min(
        range(len(ends)), key=lambda count: (Levenshtein.distance(old, new[:count]), abs(ends[count] - last))
    )


def _correct(
    result: dict, recognised: Sequence[_Character], corrected: Sequence[_Character], start: float
) -> dict:
    """Returns the result with the `corrected` characters in place of `recognised`, if they differ."""
    if len(recognised) == len(corrected) and all(map(_same, recognised, corrected)):
        return result
    times = {name: [round(item[name] - start, 3) for _, item in corrected] for name in ("start", "end")}
    items = [
        {**item, "start": first, "end": last} for (_, item), first, last in zip(corrected, *times.values())
    ]
    return {
        **result,
        "transcript": "".join(character.text for character in corrected),
        "pinyin": " ".join(item["pinyin"] for item in items),
        "status": statuses.OK if items else result["status"],
        "confidence": sum(item["confidence"] for item in items) / len(items) if items else 0.0,
        "characters": items,
    }
