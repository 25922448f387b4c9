"""Formats the segments of a transcribed recording as TSV, JSON, text, SRT or WebVTT.

SRT has no specification; the output follows SubRip. WebVTT follows the W3C Candidate Recommendation of
4 April 2019.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.exporting.saved_model import statuses
from estimator_asr.serving.transcripts import caption_lines, pauses
from tfrecord_builder.storage import files

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}  # reserved characters in WebVTT
_N_BEST = 10  # transcripts per recording, as many as a model returns per segment
_PINYIN = ("pinyin", "greedy_pinyin")  # exports from earlier releases have only the first
_SCORES = ("acoustic_score", "language_score")


class TranscriptSegment(NamedTuple):
    """A part of a recording that was recognised as one utterance."""

    start: float  # seconds from the start of the recording
    end: float
    result: dict  # outputs of recogniser.Recogniser.run; character times are relative to `start`


def make_segment(piece: pauses.Piece, sample_rate: int, result: dict) -> TranscriptSegment:
    """Returns the segment made from a piece of a recording and the recognition result for that piece."""
    places = piece.start, piece.start + len(piece.waveform)
    return TranscriptSegment(*(place / sample_rate for place in places), result)


class Transcript(NamedTuple):
    """The segments of a recording."""

    path: str
    segments: Sequence[TranscriptSegment]
    is_cut: bool = False  # True if the recording was too long for a single segment
    # The same segments as people read them (see written_text.write); None if there are no marks.
    written: Optional[Sequence[TranscriptSegment]] = None

    @property
    def shown(self) -> Sequence[TranscriptSegment]:
        """The segments with the text to show: the written text if there is one."""
        return self.segments if self.written is None else self.written


def render(transcript: Transcript, format: str) -> str:
    """Returns the complete output for a recording; `format` is one of FORMATS."""
    if format in _AS_TEXT:
        return _AS_TEXT[format](transcript.shown)
    result = {"file": transcript.path, **join(transcript.segments)}
    if format == "tsv":
        fields = (result["file"], join_transcripts(transcript.shown), result["pinyin"])
        return "\t".join(map(files.escape_controls, fields)) + "\n"
    if transcript.written is not None:
        result |= {"punctuated": result.get("punctuated", ""), "written": join_transcripts(transcript.shown)}
    if transcript.is_cut:
        result["segments"] = list_segments(transcript.segments)
        for item, segment in zip(result["segments"], transcript.written or ()):
            item["written"] = segment.result["transcript"]
    return json.dumps(result, ensure_ascii=False) + "\n"


def to_text(segments: Sequence[TranscriptSegment]) -> str:
    """Returns one line for each segment whose transcript is not empty."""
    texts = (" ".join(segment.result["transcript"].split()) for segment in segments)
    return "".join(f"{text}\n" for text in texts if text)


def to_srt(segments: Sequence[TranscriptSegment]) -> str:
    """Returns SubRip captions, numbered from 1."""
    return "".join(f"{number}\n{caption}" for number, caption in enumerate(_captions(segments, ",", {}), 1))


def to_vtt(segments: Sequence[TranscriptSegment]) -> str:
    """Returns WebVTT captions; &, < and > are escaped, so that text is not read as markup or as an arrow."""
    return "WEBVTT\n\n" + "".join(_captions(segments, ".", _ESCAPES))


CAPTIONS = {"srt": to_srt, "vtt": to_vtt}  # formats that the program transcribe and the server can write
_AS_TEXT = {"txt": to_text, **CAPTIONS}
FORMATS = ("tsv", "json", *_AS_TEXT)


def join(segments: Sequence[TranscriptSegment]) -> dict:
    """Joins the segments' results into one; the result for a single segment that starts at 0 is unchanged.

    Character times are relative to the start of the recording. Scores are summed over the segments, and
    n_best contains the highest sums. The confidence is the mean over the characters. The status is ok if at
    least one segment's status is ok; otherwise it is the first segment's status. `segments` are in the order
    of the recording; the list is empty if no speech was found.
    """
    if len(segments) == 1 and segments[0].start == 0:
        return segments[0].result
    results = [segment.result for segment in segments]
    characters = list_characters(segments)
    states = [result["status"] for result in results] or [statuses.OK]
    joined = {
        "transcript": join_transcripts(segments),
        "punctuated": join_texts([result.get("punctuated", "") for result in results]),
        **{name: " ".join(result[name] for result in results if result.get(name)) for name in _PINYIN},
        "confidence": _round(sum(item["confidence"] for item in characters) / max(len(characters), 1)),
        "characters": characters,
        "n_best": _join_n_best([result["n_best"] for result in results]),
        "status": statuses.OK if statuses.OK in states else states[0],
        **{name: _round(sum(result[name] for result in results)) for name in _SCORES},
    }
    names = results[0] if results else [name for name in joined if name != "punctuated"]
    return {name: joined[name] for name in names}


def list_segments(segments: Sequence[TranscriptSegment]) -> list[dict]:
    """Returns each segment's start and end (in seconds, to the millisecond), transcript and confidence."""
    return [
        {
            "start": round(segment.start, 3),
            "end": round(segment.end, 3),
            "transcript": segment.result["transcript"],
            "confidence": segment.result["confidence"],
        }
        for segment in segments
    ]


def join_transcripts(segments: Sequence[TranscriptSegment]) -> str:
    return join_texts([segment.result["transcript"] for segment in segments])


def join_texts(texts: Sequence[str]) -> str:
    """Joins texts with spaces, except next to a wide character (such as a hanzi) or another space."""
    joined = ""
    for text in filter(None, texts):
        if joined and caption_lines.needs_space(joined[-1], text[0]):
            joined += " "
        joined += text
    return joined


def _join_n_best(lists: Sequence[Sequence[dict]]) -> list[dict]:
    """Combines one text from each list; returns the distinct combinations with the best total scores."""
    best = [(0.0, "")]
    for items in filter(None, lists):
        sums = [(score + item["score"], text, item["transcript"]) for score, text in best for item in items]
        highest = heapq.nlargest(_N_BEST, sums, key=lambda choice: choice[0])
        best = [(score, join_texts(texts)) for score, *texts in highest]
    scores = {}
    for score, text in best:
        scores.setdefault(text, score)
    return [{"transcript": text, "score": _round(score)} for text, score in scores.items()]


def _round(score: float) -> float:
    """Rounds a sum to float32, the precision of the scores in the result for a segment."""
    return float(str(np.float32(score)))


def list_characters(segments: Sequence[TranscriptSegment]) -> list[dict]:
    """Returns the characters of all segments with their times in the recording."""
    if len(segments) == 1 and segments[0].start == 0:
        return segments[0].result["characters"]
    return [item for segment in segments for item in shift_characters(segment)]


def shift_characters(segment: TranscriptSegment) -> list[dict]:
    return [
        {**item, **{name: round(segment.start + item[name], 3) for name in ("start", "end")}}
        for item in segment.result["characters"]
    ]


def _captions(segments: Sequence[TranscriptSegment], point: str, escapes: Mapping[str, str]) -> Iterator[str]:
    """Yields captions, each with its times, text and an empty line; `point` is the decimal separator."""
    spans = (
        (segment.start, segment.end, segment.result["transcript"], shift_characters(segment))
        for segment in segments
    )
    for line in caption_lines.split(spans):
        text = line.text.translate(str.maketrans(dict(escapes)))
        yield f"{_clock(line.start_ms, point)} --> {_clock(line.end_ms, point)}\n{text}\n\n"


def _clock(milliseconds: int, point: str) -> str:
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{milliseconds:03}"
