"""Cuts aligned sentences into utterances of 1 to 15 seconds, in pauses where there are any."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.serving.alignment import forced_alignment, matching, texts, written_words
from estimator_asr.serving.transcripts import captions, recordings

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 15.0
_SECONDS_BEFORE, _SECONDS_AFTER = 0.4, 0.6  # an utterance includes up to this much of the pause on each side
_FRACTION_BEFORE = 0.65  # a short pause is cut after this fraction, because CTC emits syllables early
_LONGEST_SPEECH = LONGEST_SECONDS - _SECONDS_BEFORE - _SECONDS_AFTER
_LONGEST_GAP = 2.0  # maximum seconds between two sentences that are joined because one of them is short
_MIN_AGREEMENT = 0.1  # see matching.TextMatch
_NO_SPEECH = "no speech was found; remove the recording, or replace it with the one that belongs to the text"


class TextSpan(NamedTuple):
    """Consecutive phrases; `start` and `end` are the times of their first and last emission, in seconds."""

    text: str
    tokens: tuple[str, ...]
    pinyin: tuple[str, ...]  # the syllables that were said
    start: float
    end: float
    num_heard: float  # sum of exp(score) over the tokens; a token that was heard clearly adds 1
    cut: str  # "sentence" if a sentence ends with the span, otherwise "phrase"
    words: list  # see make_rows

    @property
    def seconds(self) -> float:
        return self.end - self.start


def make_rows(
    token_type: str, recording: recordings.RecordingFile, transcript: captions.Transcript
) -> dict[str, object]:
    """Aligns a recording with its text, and returns the values that recording_units stores for it.

    Returns:
        rows: the utterances and what was left out, in the order of the recording, as dicts with start,
        seconds, text, pinyin (of what was said), heard, score, cut and problem ("" for an utterance).
        Aligned text also has words: [word as it is written, [[token, first and last millisecond in which CTC
        emits the token, exp(score)], ...]], ...
        refusal: the reason why the recording cannot be aligned with this text, or "".
    """
    speech = forced_alignment.join_segments(transcript.segments)
    if not speech.tokens:
        return {"rows": [], "refusal": _NO_SPEECH}
    sentences = texts.read_sentences(recording.text_path, texts.make_tokeniser(token_type))
    if token_type == "character":
        sentences = texts.simplify(sentences, speech.segments[0].vocabulary.tokens)
    match = matching.match(sentences, speech.tokens, speech.places)
    if match.agreement < _MIN_AGREEMENT or not match.windows:
        why = f"only {match.agreement:.0%} of the tokens agree (minimum: {_MIN_AGREEMENT:.0%})"
        if match.agreement >= _MIN_AGREEMENT:
            why = f"less than {matching.MIN_HEARD:.0%} of each sentence was heard"
        refusal = (
            f"{recording.text_path} does not match the speech: {why}; replace it with the text of this "
            "recording"
        )
        return {"rows": [], "refusal": refusal}
    rows = list(_list_utterances(speech, match, token_type))
    rows += [_describe_range(speech, *places, "speech without text") for places in match.unwritten]
    for sentence, place in match.unsaid:
        rows.append(_describe_range(speech, place, place, "text without speech", sentence.text))
    return {"rows": sorted(rows, key=lambda row: row["start"]), "refusal": ""}


def _list_utterances(speech, match, token_type) -> Iterator[dict]:
    for window, sentences in zip(match.windows, forced_alignment.align(speech, match.windows)):
        first, last = window[0].first, window[-1].end
        if not sentences:
            text = "".join(matched.text for matched in window)
            yield _describe_range(speech, first, last, "too little or too much audio for the text", text)
            continue
        divided = (_divide(_list_phrases(sentence, token_type)) for sentence in sentences)
        spans = _merge(list(itertools.chain.from_iterable(divided)))
        before = speech.ends[speech.places[first - 1] + 1] if first else 0.0
        after = speech.token_starts[last] if last < len(speech.tokens) else speech.ends[-1]
        ends, starts = [before, *(span.end for span in spans)], [*(span.start for span in spans[1:]), after]
        for span, end_before, start_after in zip(spans, ends, starts):
            yield _describe(speech, span, end_before, start_after)


def _describe(speech, span, end_before, start_after) -> dict:
    before = min(_SECONDS_BEFORE, (1 - _FRACTION_BEFORE) * max(0.0, span.start - end_before))
    after = min(_SECONDS_AFTER, _FRACTION_BEFORE * max(0.0, start_after - span.end))
    room = max(0.0, LONGEST_SECONDS - span.seconds)
    start = span.start - min(before, room * before / max(before + after, room, 1e-9))
    end = span.end + min(after, room * after / max(before + after, room, 1e-9))
    first, stop = np.searchsorted(speech.token_starts, (start, end))
    problem = ""
    if span.seconds > LONGEST_SECONDS:
        problem = f"longer than {LONGEST_SECONDS:g} s, and the text has no mark at which to divide it"
    elif end - start < SHORTEST_SECONDS:
        problem = f"shorter than {SHORTEST_SECONDS:g} s"
    tokens, text = speech.tokens[first:stop], " ".join(span.text.split())
    score = round(span.num_heard / max(len(span.tokens), len(tokens)), 3)
    values = {"pinyin": " ".join(span.pinyin), "score": score, "cut": span.cut, "words": span.words}
    return {**_make_row(start, end, text, tokens, problem), **values}


def _describe_range(speech, first, end, problem, text="") -> dict:
    """Returns the row for heard tokens that belong to no utterance; their range may be empty."""
    start = speech.token_starts[first] if first < len(speech.tokens) else speech.ends[-1]
    stop = speech.ends[speech.places[end - 1] + 1] if end > first else start
    return _make_row(start, stop, text, speech.tokens[first:end], problem)


def _make_row(start, end, text, tokens, problem) -> dict:
    times = {"start": round(float(start), 3), "seconds": round(float(end - start), 3)}
    values = {"text": text, "pinyin": "", "heard": " ".join(tokens)}
    return {**times, **values, "score": 0.0, "cut": "", "problem": problem}


def _list_phrases(sentence: forced_alignment.AlignedSentence, token_type: str) -> list[TextSpan]:
    """Returns the phrases of a sentence; text without tokens is added to the phrase before it."""
    spans: list[TextSpan] = []
    unsaid, token, read = "", 0, texts.make_tokeniser("syllable")
    for phrase in sentence.matched.sentence.phrases:
        if not phrase.tokens:
            unsaid += phrase.text
            continue
        if spans:
            spans[-1], unsaid = spans[-1]._replace(text=spans[-1].text + unsaid), ""
        last = token + len(phrase.tokens) - 1
        times = float(sentence.starts[token]), float(sentence.ends[last])
        num_heard = float(np.sum(np.exp(sentence.scores[token : last + 1])))
        words = _list_words(sentence, phrase, token, token_type)
        content = unsaid + phrase.text, phrase.tokens, read(phrase.text)
        spans.append(TextSpan(*content, *times, num_heard, "phrase", words))
        unsaid, token = "", last + 1
    cut = "sentence" if sentence.matched.sentence.is_whole else "phrase"
    spans[-1] = spans[-1]._replace(text=spans[-1].text + unsaid, cut=cut)
    return spans


def _list_words(sentence, phrase, token, token_type) -> list:
    """Returns the words (see make_rows) of a phrase; `token` is its first token's index in the sentence."""
    milliseconds = (np.round(1000 * times).astype(int).tolist() for times in (sentence.starts, sentence.ends))
    scores = np.round(np.exp(sentence.scores), 3).tolist()
    timed = [list(values) for values in zip(sentence.matched.sentence.tokens, *milliseconds, scores)]
    words = []
    for text, count in written_words.split(phrase.text, len(phrase.tokens), token_type):
        words.append([text, timed[token : token + count]])
        token += count
    return words


def _join(spans: Sequence[TextSpan], text: str) -> TextSpan:
    tokens, pinyin = (sum((span[i] for span in spans), ()) for i in (1, 2))
    num_heard = sum(span.num_heard for span in spans)
    words = [word for span in spans for word in span.words]
    return TextSpan(text, tokens, pinyin, spans[0].start, spans[-1].end, num_heard, spans[-1].cut, words)


def _divide(spans: list[TextSpan]) -> list[TextSpan]:
    """Divides a sentence that is too long, at its longest pauses between phrases."""
    joined = _join(spans, "".join(span.text for span in spans))
    pauses = {
        spans[i].start - spans[i - 1].end: i
        for i in range(1, len(spans))
        if min(spans[i - 1].end - joined.start, joined.end - spans[i].start) >= SHORTEST_SECONDS
    }
    if joined.seconds <= _LONGEST_SPEECH or not pauses:
        return [joined]
    place = pauses[max(pauses)]
    return [*_divide(spans[:place]), *_divide(spans[place:])]


def _merge(spans: list[TextSpan]) -> list[TextSpan]:
    """Joins each sentence that is too short with the one before or after it, unless the two are far apart."""
    merged: list[TextSpan] = []
    for span in spans:
        last = merged[-1] if merged else span
        is_short = merged and min(last.seconds, span.seconds) < SHORTEST_SECONDS
        if is_short and span.start - last.end <= _LONGEST_GAP and span.end - last.start <= _LONGEST_SPEECH:
            merged[-1] = _join([last, span], captions.join_texts([last.text.strip(), span.text.strip()]))
        else:
            merged.append(span)
    return merged
