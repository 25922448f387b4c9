"""Transcripts of a recording that was cut into segments: text, SRT, WebVTT, or one result for all of it.

SRT has no specification; its form is that of SubRip. WebVTT: W3C Candidate Recommendation, 4 April 2019.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.saved_model import statuses
from estimator_asr.transcripts import caption_lines

_N_BEST = 10  # transcripts of a whole recording; a model has as many for each segment
_TIMES = ("start", "end")
_SCORES = ("acoustic_score", "language_score")


class Segment(NamedTuple):
    """A part of a recording that was recognised at once.

    Attributes:
        start, end: seconds in the recording.
        result: one utterance of recogniser.Recogniser.run; the times of its characters count from `start`.
    """

    start: float
    end: float
    result: dict


def to_text(segments: Sequence[Segment]) -> str:
    """Returns one line per segment that has a transcript."""
    return "".join(f"{' '.join(text.split())}\n" for text in _transcripts(segments) if text.strip())


def to_srt(segments: Sequence[Segment]) -> str:
    """Returns SubRip captions, numbered from 1."""
    return "".join(
        f"{number}\n{_clock(line.start_ms, ',')} --> {_clock(line.end_ms, ',')}\n{line.text}\n\n"
        for number, line in enumerate(_lines(segments), 1)
    )


def to_vtt(segments: Sequence[Segment]) -> str:
    """Returns WebVTT captions; &, < and > are escaped, so that text is neither markup nor an arrow."""
    return "WEBVTT\n\n" + "".join(
        f"{_clock(line.start_ms, '.')} --> {_clock(line.end_ms, '.')}\n{_escape(line.text)}\n\n"
        for line in _lines(segments)
    )


def join(segments: Sequence[Segment]) -> dict:
    """Returns one result for the recording; one segment that starts at 0 is its result.

    The times of characters count from the start of the recording. Scores are sums over the segments, n_best
    has the best sums; the confidence is the mean of the characters'; the status is ok if any segment's is.

    Args:
        segments: of one recording and one model, in order; without any, nothing was said.
    """
    if len(segments) == 1 and segments[0].start == 0:
        return segments[0].result
    results = [segment.result for segment in segments]
    characters = [item for segment in segments for item in _shift_characters(segment)]
    joined = {
        "transcript": join_texts([result["transcript"] for result in results]),
        "pinyin": " ".join(result["pinyin"] for result in results if result["pinyin"]),
        "confidence": _round(sum(item["confidence"] for item in characters) / max(len(characters), 1)),
        "characters": characters,
        "n_best": _join_n_best([result["n_best"] for result in results]),
    }
    known = [result["status"] for result in results if "status" in result] or [statuses.OK]
    joined["status"] = statuses.OK if statuses.OK in known else known[0]
    scores = {name: _round(sum(result[name] for result in results)) for name in _SCORES}
    return {**(results[0] if results else {}), **joined, **scores}


def list_segments(segments: Sequence[Segment]) -> list[dict]:
    """Returns start and end (seconds, to the millisecond), transcript and confidence of each segment."""
    return [
        {
            "start": round(segment.start, 3),
            "end": round(segment.end, 3),
            "transcript": segment.result["transcript"],
            "confidence": segment.result["confidence"],
        }
        for segment in segments
    ]


def join_texts(texts: Sequence[str]) -> str:
    """Joins texts, with a space where neither side is a hanzi or other wide character."""
    pieces = []
    for text in filter(None, texts):
        if pieces and caption_lines.needs_space(pieces[-1][-1], text[0]):
            pieces.append(" ")
        pieces.append(text)
    return "".join(pieces)


def _join_n_best(lists: Sequence[Sequence[dict]]) -> list[dict]:
    """Returns the best sums of one transcript per list, each text once.

    Choices are linked from the last to the first.
    """
    best = [(0.0, None)]
    for items in filter(None, lists):
        sums = [(score + item["score"], (item["transcript"], rest)) for score, rest in best for item in items]
        best = heapq.nlargest(_N_BEST, sums, key=lambda found: found[0])
    scores = {}
    for score, choices in best:
        scores.setdefault(join_texts(_unlink(choices)), score)
    return [{"transcript": text, "score": _round(score)} for text, score in scores.items()]


def _round(score: float) -> float:
    """Returns a sum with the digits of a float32, as the results of a segment have them."""
    return float(str(np.float32(score)))


def _unlink(choices) -> list[str]:
    texts = []
    while choices:
        text, choices = choices
        texts.append(text)
    return texts[::-1]


def _shift_characters(segment: Segment) -> list[dict]:
    times = (
        {name: round(segment.start + item[name], 3) for name in _TIMES}
        for item in segment.result["characters"]
    )
    return [{**item, **shifted} for item, shifted in zip(segment.result["characters"], times)]


def _transcripts(segments):
    return (segment.result["transcript"] for segment in segments)


def _lines(segments: Sequence[Segment]) -> list[caption_lines.Line]:
    spans = (
        (segment.start, segment.end, segment.result["transcript"], _shift_characters(segment))
        for segment in segments
    )
    return caption_lines.split(spans)


def _clock(milliseconds: int, point: str) -> str:
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{milliseconds:03}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
