"""Finds the sentences of a text among the tokens that were heard in a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from estimator_asr.serving.alignment import texts

MIN_HEARD = 0.2  # minimum fraction of a sentence's tokens that must have been heard
_MIN_HEARD_IN_BRACKETS = 0.5  # stricter, because text in brackets is often not read aloud
_MIN_UNWRITTEN = 3  # shorter runs of heard tokens without text are not reported
_MIN_RUN = 3  # minimum number of matching tokens in a row; even unrelated texts share many shorter runs
_MAX_WINDOW_FRAMES = 3000  # one to two minutes


class MatchedSentence(NamedTuple):
    """A sentence that was said, and the range of heard tokens in which it was said."""

    sentence: texts.TextSentence  # phrases in brackets that were not said have no tokens
    text: str  # the whole sentence as it is written
    first: int  # index of the first heard token
    end: int  # index after the last heard token


class TextMatch(NamedTuple):
    """The sentences that were said, those that were not, and speech without text."""

    windows: list[list[MatchedSentence]]  # sentences with no other speech between them
    unsaid: list[tuple[texts.TextSentence, int]]  # each with the index of the heard token that follows it
    unwritten: list[tuple[int, int]]  # ranges of heard tokens that are in no sentence
    agreement: float  # tokens in matching runs, as a fraction of the shorter of text and speech


def match(sentences: Sequence[texts.TextSentence], heard: Sequence[str], frames: Sequence[int]) -> TextMatch:
    """Aligns a text with the tokens that were heard, with as few edits as possible.

    rapidfuzz finds the edits with Hyyrö's bit-parallel algorithm in little memory: two lists of 150,000
    tokens, about ten hours of speech, take seconds.

    `frames` has the frame in which each heard token begins.
    """
    tokens = [token for sentence in sentences for token in sentence.tokens]
    blocks = Levenshtein.editops(tokens, heard).as_matching_blocks()
    places = np.full(len(tokens), -1)
    for block in blocks:
        places[block.a : block.a + block.size] = np.arange(block.b, block.b + block.size)
    matched, unsaid = _find_sentences(sentences, places, len(heard))
    min_run = min(_MIN_RUN, len(tokens), len(heard))
    in_runs = sum(block.size for block in blocks if block.size >= min_run)
    agreement = in_runs / max(1, min(len(tokens), len(heard)))
    starts, ends = [0, *(item.end for item in matched)], [*(item.first for item in matched), len(heard)]
    unwritten = [(start, end) for start, end in zip(starts, ends) if end - start >= _MIN_UNWRITTEN]
    return TextMatch(_group(matched, frames), unsaid, unwritten, agreement)


def _find_sentences(sentences, places, num_heard):
    """Returns the matched sentences and the others.

    `places` has the index of the heard token that matches each token of the text, or -1.
    """
    matching_places = places[places >= 0]
    matched, unsaid, start, here = [], [], 0, 0
    for sentence in sentences:
        end = start + len(sentence.tokens)
        said, said_places = _leave_out_brackets(sentence, places[start:end])
        hits = said_places[said_places >= 0]
        if len(hits) < max(1, MIN_HEARD * len(said_places)):
            unsaid.append((sentence, here))
        else:
            # Tokens misheard at either end of the sentence extend its range, but not into other sentences.
            before, after = int(np.argmax(said_places >= 0)), int(np.argmax(said_places[::-1] >= 0))
            following = np.searchsorted(matching_places, hits[-1], "right")
            limit = int(matching_places[following]) if following < len(matching_places) else num_heard
            first = max(here, int(hits[0]) - before)
            here = min(limit, int(hits[-1]) + 1 + after)
            matched.append(MatchedSentence(said, sentence.text, first, here))
        start = end
    return matched, unsaid


def _leave_out_brackets(sentence, places):
    """Returns a sentence and its places without the phrases in brackets that were not said."""
    phrases, said_places, start = [], [], 0
    for phrase in sentence.phrases:
        end = start + len(phrase.tokens)
        num_heard = np.count_nonzero(places[start:end] >= 0)
        is_silent = phrase.may_be_silent and num_heard < _MIN_HEARD_IN_BRACKETS * len(phrase.tokens)
        phrases.append(phrase._replace(tokens=()) if is_silent else phrase)
        said_places.append(places[start:start] if is_silent else places[start:end])
        start = end
    return sentence._replace(phrases=tuple(phrases)), np.concatenate(said_places)


def _group(matched, frames):
    """Groups sentences into windows, which end before other heard tokens, or before they become too long."""
    windows: list[list[MatchedSentence]] = []
    for item in matched:
        last = windows[-1] if windows else []
        is_long = last and frames[item.end - 1] - frames[last[0].first] > _MAX_WINDOW_FRAMES
        if not last or item.first > last[-1].end or is_long:
            windows.append([])
        windows[-1].append(item)
    return windows
