"""Writes the times of words as TextGrid (for Praat), CTM (for sclite), JSON, SRT and WebVTT.

The times are estimated from the frames in which CTC emits the tokens.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from estimator_asr.serving.transcripts import captions, recordings
from tfrecord_builder.data import syllables, vocabulary
from tfrecord_builder.storage import files

# Chosen by benchmarks.boundaries; see docs/experiments/alignment.md.
_LEAD = 0.4  # fraction of the time between two emissions that belongs to the second token
_LONGEST_LEAD, _LONGEST_TAIL = 120, 200  # maximum milliseconds of a token before and after its emission
# Punctuation around a word and references to footnotes; $5 and 5% keep their symbols.
_PUNCTUATION = re.compile(r"\[\d+\]|^[^\w+\-$¥￥€@#&]+|[^\w+%‰℃°]+$")


def write(
    recording: recordings.RecordingFile,
    rows: Sequence[Mapping],
    formats: Iterable[str],
    token_type: str,
    directory: str,
) -> list[str]:
    """Writes directory/NAME.EXTENSION in each of the formats if there are rows, and returns the paths.

    `rows` are those of segments.make_rows that have words, in chronological order.
    """
    if not rows:
        return []
    name = re.sub(r"(^|/)\.\.(?=/)", r"\1__", recording.name).lstrip("/")  # stays within the directory
    paths = []
    for extension, render in map(FORMATS.__getitem__, formats):
        paths.append(os.path.normpath(os.path.join(directory, f"{name}.{extension}")))
        recordings.save(paths[-1], render(recording._replace(name=name), rows, token_type))
    return paths


def remove_others(directory: str, paths: Collection[str]) -> None:
    """Removes the files that an earlier run wrote into a directory, except those with the given paths."""
    for extension, _ in FORMATS.values():
        for path in recordings.list_outputs(extension.lower(), directory):
            if os.path.normpath(path) not in paths:
                files.remove(path)


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
    """Returns each token's start and end in seconds; `emissions` has its first and last milliseconds."""
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


def _list_words(rows) -> list[dict]:
    """Returns the words that are more than punctuation."""
    utterances = list_utterances(rows)
    return [word for utterance in utterances for word in utterance["words"] if word["text"]]


def _to_text_grid(recording, rows, token_type) -> str:
    """Returns a short-format TextGrid: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html"""
    words = _list_words(rows)
    end = max(words[-1]["end"], recordings.total_seconds([recording]) or 0)
    tiers = _make_tiers(words, token_type)
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "0", f"{end:.3f}", "<exists>"]
    lines.append(f"{len(tiers)}")
    for name, tier in tiers.items():
        intervals = list(_fill(tier, end))
        lines += ['"IntervalTier"', f'"{name}"', "0", f"{end:.3f}", f"{len(intervals)}"]
        for start, stop, text in intervals:
            escaped = text.replace('"', '""')
            lines += [f"{start:.3f}", f"{stop:.3f}", f'"{escaped}"']
    return "".join(f"{line}\n" for line in lines)


def _make_tiers(words, token_type) -> dict[str, list[tuple[float, float, str]]]:
    tokens = [(item["start"], item["end"], item["token"]) for word in words for item in word["tokens"]]
    tiers = {"hanzi": [(word["start"], word["end"], word["text"]) for word in words]}
    if token_type != "character":
        tiers["syllables"] = tokens
    if token_type == "initial_final":
        tiers["syllables"] = _join_initials(tokens)
        tiers["initials"] = [token for token in tokens if token[2] in syllables.INITIALS]
        tiers["finals"] = [token for token in tokens if re.fullmatch(syllables.FINAL, token[2])]
    return tiers


def _join_initials(tokens) -> list[tuple[float, float, str]]:
    """Joins initials with the finals after them."""
    separator, rules = vocabulary.JOININGS["initial_final"]
    joined = separator.join(text for *_, text in tokens)
    for pattern, replacement in rules:
        joined = re.sub(pattern, replacement, joined)
    is_initial = [text in syllables.INITIALS for *_, text in tokens]
    starts = [start for (start, *_), after_initial in zip(tokens, [False, *is_initial]) if not after_initial]
    ends = [end for (_, end, _), initial in zip(tokens, is_initial) if not initial]
    return list(zip(starts, ends, joined.split(" ")))


def _fill(tier, end) -> Iterator[tuple[float, float, str]]:
    """Yields the intervals of a tier from 0 to `end`, with empty ones between them."""
    place = 0.0
    for start, stop, text in [*tier, (end, end, "")]:
        if start > place:
            yield place, start, ""
        if stop > start:
            yield start, stop, text
        place = stop


def _to_ctm(recording, rows, token_type) -> str:
    """Returns lines for NIST's sclite: file, channel, start, duration, word and confidence."""
    lines = []
    for word in _list_words(rows):
        name, text = re.sub(r"\s", "_", recording.name), re.sub(r"\s", "", word["text"])
        times = f"{word['start']:.3f} {word['end'] - word['start']:.3f}"
        lines.append(f"{name} 1 {times} {text} {word['score']:.3f}\n")
    return "".join(lines)


def _to_json(recording, rows, token_type) -> str:
    result = {"file": recording.path, "utterances": list_utterances(rows)}
    return json.dumps(result, ensure_ascii=False, indent=1) + "\n"


def _make_segment(row) -> captions.TranscriptSegment:
    """Returns an utterance with the times in which CTC emits its words, as captions expects them."""
    offset = row["start"]
    characters = [
        {"character": text, "start": tokens[0][1] / 1000 - offset, "end": tokens[-1][2] / 1000 - offset}
        for text, tokens in row["words"]
    ]
    transcript = captions.join_texts([text for text, _ in row["words"]])
    result = {"transcript": transcript, "characters": characters}
    return captions.TranscriptSegment(offset, offset + row["seconds"], result)


# Extension and function of each format.
FORMATS = {
    "textgrid": ("TextGrid", _to_text_grid),
    "ctm": ("ctm", _to_ctm),
    "json": ("json", _to_json),
    "srt": ("srt", lambda recording, rows, token_type: captions.to_srt([*map(_make_segment, rows)])),
    "vtt": ("vtt", lambda recording, rows, token_type: captions.to_vtt([*map(_make_segment, rows)])),
}
