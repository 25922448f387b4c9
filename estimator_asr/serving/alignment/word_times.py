"""Estimates when words begin and end, from the frames in which CTC emits their tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

# Chosen by benchmarks.boundaries; see docs/experiments/alignment.md.
_LEAD = 0.4  # fraction of the time between two emissions that belongs to the second token
_LONGEST_LEAD, _LONGEST_TAIL = 120, 200  # milliseconds of a token before and after its emission
# Punctuation around a word and references to footnotes; $5 and 5% keep their symbols.
_PUNCTUATION = re.compile(r"\[\d+\]|^[^\w+\-$¥￥€@#&]+|[^\w+%‰℃°]+$")


def list_utterances(rows: Sequence[Mapping]) -> list[dict]:
    """Returns utterances with start, end, text, score and words, for JSON; times are seconds.

    Words have start, end, text, score (the mean over the tokens) and tokens; tokens have start, end, token
    and score. `rows` are those of segments.make_rows that have words, in chronological order.
    """
    emissions = [token[1:3] for row in rows for _, tokens in row["words"] for token in tokens]
    times = iter(find_times(emissions))
    utterances = []
    for row in rows:
        words = [_describe(text, tokens, times) for text, tokens in row["words"]]
        span = {"start": words[0]["start"], "end": words[-1]["end"]}
        utterances.append({**span, "text": row["text"], "score": row["score"], "words": words})
    return utterances


def find_times(emissions: Sequence[Sequence[int]]) -> list[dict[str, float]]:
    """Returns start and end in seconds of successive tokens, which are emitted in these milliseconds."""
    middles = np.reshape(emissions, (-1, 2)).mean(axis=1)
    leads = np.minimum(_LONGEST_LEAD, _LEAD * np.diff(middles, prepend=-np.inf))
    starts = np.maximum(0, middles - leads)
    ends = np.minimum(middles + _LONGEST_TAIL, np.append(starts[1:], np.inf))
    return [{"start": round(start) / 1000, "end": round(end) / 1000} for start, end in zip(starts, ends)]


def _describe(text, tokens, times) -> dict:
    timed = [{**next(times), "token": token, "score": score} for token, _, _, score in tokens]
    score = round(sum(token["score"] for token in timed) / len(timed), 3)
    span = {"start": timed[0]["start"], "end": timed[-1]["end"]}
    return {**span, "text": _PUNCTUATION.sub("", text), "score": score, "tokens": timed}
