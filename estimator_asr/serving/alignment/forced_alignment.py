"""Finds the times of the tokens in matched sentences, with CTC forced alignment."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.decoding.search import token_times
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.alignment import frame_scores, matching
from estimator_asr.serving.transcripts import captions
from tfrecord_builder.data import vocabulary

_BATCH_FRAMES = 8000  # maximum per batch, including padding; 32 MB if there are a thousand tokens
_MARGIN_SECONDS = 20.0  # a window extends at most this far beyond its heard tokens, to include missed words


class RecognisedRecording(NamedTuple):
    """The model's outputs for a recording; the frames of all segments are numbered consecutively."""

    segments: Sequence[frame_scores.SegmentScores]
    firsts: np.ndarray  # int [num_segments + 1], index of each segment's first frame, then num_frames
    starts: np.ndarray  # float [num_frames + 1], seconds from the start of the recording to each frame
    ends: np.ndarray  # float [num_frames + 1], seconds from the start to the end of the previous frame
    tokens: list[str]
    places: np.ndarray  # int [num_tokens], the frame in which each token begins
    token_starts: np.ndarray  # float [num_tokens], seconds

    def find_border(self, token: int) -> int:
        """Returns the frame halfway between a heard token and the one before it."""
        if token in (0, len(self.tokens)):
            return 0 if token == 0 else int(self.firsts[-1])
        return int(self.places[token - 1] + self.places[token] + 1) // 2


class TokenSpan(NamedTuple):
    """Frames of a recording, from `start` to `end`, and the tokens that may have been said in them."""

    recording: RecognisedRecording
    start: int
    end: int
    tokens: Sequence[str]


class AlignedSentence(NamedTuple):
    """A sentence with the times and scores of its tokens."""

    matched: matching.MatchedSentence
    starts: np.ndarray  # float [num_tokens], seconds from the start of the recording
    ends: np.ndarray  # float [num_tokens]
    scores: np.ndarray  # float [num_tokens]; see token_times.Alignment


def join_segments(segments: Sequence[captions.TranscriptSegment]) -> RecognisedRecording:
    """Joins what was heard in the segments of a recording."""
    scores = [segment.result["scores"] for segment in segments]
    lengths = [score.num_frames for score in scores]
    firsts = np.cumsum([0, *lengths])
    seconds = max((score.seconds for score in scores), default=0.0)  # rejected segments have 0
    frames = [segment.start + seconds * np.arange(length) for segment, length in zip(segments, lengths)]
    starts = np.concatenate([*frames, [0.0]])
    ends = np.roll(starts, 1) + seconds
    starts[-1], ends[0] = ends[-1], starts[0]
    tokens = [token for score in scores for token in score.tokens]
    places = np.concatenate([[], *(first + score.places for first, score in zip(firsts, scores))]).astype(int)
    return RecognisedRecording(scores, firsts, starts, ends, tokens, places, starts[places])


def align(
    recording: RecognisedRecording, windows: Sequence[Sequence[matching.MatchedSentence]]
) -> list[list[AlignedSentence]]:
    """Returns the timed sentences of each window, or [] if the window has too few or too many frames."""
    spans = [_make_span(recording, window) for window in windows]
    return [
        _divide(recording, window, span.start, *times) if times else []
        for window, span, times in zip(windows, spans, align_spans(spans))
    ]


def align_spans(spans: Sequence[TokenSpan]) -> list[Optional[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Aligns the tokens of each span with its frames.

    Returns:
        For each span, None if it has too few or too many frames; otherwise three arrays [num_tokens]: the
        frame of the span in which each token begins, int; the frame after it, int; and the token's score,
        float (see token_times.Alignment).
    """
    ids = [span.recording.segments[0].vocabulary.encode(span.tokens) for span in spans]
    aligned: list[Optional[tuple]] = [None] * len(spans)
    for batch in _make_batches([span.end - span.start for span in spans], ids):
        frames = [read_frames(*spans[i][:3]) for i in batch]
        for i, times in zip(batch, _run(frames, [ids[i] for i in batch])):
            aligned[i] = times
    return aligned


def read_frames(recording: RecognisedRecording, start: int, end: int) -> np.ndarray:
    """Returns log probabilities, float32 [end - start, num_classes]; `start` must be less than `end`."""
    parts, number = [], int(np.searchsorted(recording.firsts, start, "right")) - 1
    while recording.firsts[number] < end:
        first, segment = recording.firsts[number], recording.segments[number]
        a, b = max(start - first, 0), min(end - first, segment.num_frames)
        parts.append(segment.store.read(segment.first + a, b - a))
        number += 1
    return np.concatenate(parts)


def _make_span(recording, window):
    first, end = window[0].first, window[-1].end
    margin = round(_MARGIN_SECONDS / max(segment.seconds for segment in recording.segments))
    start = max(recording.find_border(first), int(recording.places[first]) - margin)
    stop = min(recording.find_border(end), int(recording.places[end - 1]) + margin)
    return TokenSpan(recording, start, stop, [token for item in window for token in item.sentence.tokens])


def _make_batches(lengths, ids) -> Iterator[list[int]]:
    """Yields the indices of the spans that can be aligned, in batches of similar lengths."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if not vocabulary.min_ctc_frames(ids[i]) <= lengths[i] <= _BATCH_FRAMES:
            continue
        if batch and lengths[i] * (len(batch) + 1) > _BATCH_FRAMES:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _run(frames, ids):
    """Returns the first frame, the frame after the last, and the score of each token in each span."""
    session, inputs, outputs = _build()
    width, length = max(map(len, ids)), max(map(len, frames))
    values = (
        np.stack([np.pad(log_probs, [(0, length - len(log_probs)), (0, 0)]) for log_probs in frames]),
        [len(log_probs) for log_probs in frames],
        [[*tokens, *[0] * (width - len(tokens))] for tokens in ids],
        [len(tokens) for tokens in ids],
    )
    rows = zip(*session.run(outputs, dict(zip(inputs, values))), ids)
    return [tuple(value[: len(tokens)] for value in row) for *row, tokens in rows]


@functools.lru_cache(maxsize=1)
def _build():
    with tf.Graph().as_default() as graph:
        shapes = {"log_probs": [None] * 3, "num_frames": [None], "ids": [None] * 2, "num_tokens": [None]}
        inputs = [
            tf.compat.v1.placeholder(tf.float32 if name == "log_probs" else tf.int32, shape, name)
            for name, shape in shapes.items()
        ]
        aligned = token_times.align_and_score(*inputs)
        outputs = aligned.times.starts, aligned.times.ends, aligned.scores
        return recogniser.open_session(graph), inputs, outputs


def _divide(recording, window, first_frame, starts, ends, scores):
    aligned, token = [], 0
    for matched in window:
        part = slice(token, token + len(matched.sentence.tokens))
        times = recording.starts[first_frame + starts[part]], recording.ends[first_frame + ends[part]]
        aligned.append(AlignedSentence(matched, *times, scores[part]))
        token = part.stop
    return aligned
