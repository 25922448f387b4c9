"""Finds utterances whose transcripts probably differ from the speech in the recordings.

Where a transcript and the heard tokens differ, the transcript is edited and aligned again. The words are
suspicious if the log probability of the best path rises by more than a model's usual mistakes can explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from estimator_asr.serving.alignment import forced_alignment, texts
from tfrecord_builder.data import manifest, syllables
from tfrecord_builder.labels import labelling

LEFT_OUT, ADDED, OTHER_WORDS = "words left out", "words added", "other words"
CUT_BEGIN, CUT_END = "cut at the begin", "cut at the end"
SILENCE, OTHER_SENTENCE, OTHER_LANGUAGE = "silence", "another sentence", "other language"
UNCLEAR = "unclear"  # a low score, although no word is certainly wrong

# Differences of log probabilities (natural logarithms), chosen in docs/experiments/alignment.md.
_MIN_GAIN = {LEFT_OUT: 10.0, ADDED: 6.0}  # models miss words more often than they hear extra words
_MIN_TOKEN_GAIN = 15.0  # per token that was replaced by another
_DOUBTS = 100.0  # the limits above are raised by this value times (1 - confidence)
_MIN_TOKEN_LOSS = 10.0  # per token, if another sentence was said
_MIN_AGREEMENT = 0.5  # fraction of agreeing tokens; if it is lower, another sentence may have been said
_MIN_CONFIDENCE = 0.75  # mean probability of the heard tokens; lower if another language was spoken
_MIN_KNOWN = 0.5  # fraction of the transcript's tokens that are in the vocabulary
_LOWEST = -1e9  # score of a token that cannot be aligned
_CUT_SECONDS = 0.2  # speech that begins or ends closer to the recording's start or end may have been cut off


class TextEdit(NamedTuple):
    """Replaces the tokens of a transcript from `start` to `end` with tokens that were heard."""

    start: int
    end: int
    said: tuple[str, ...]

    @property
    def fault(self) -> str:
        return LEFT_OUT if not self.said else ADDED if self.start == self.end else OTHER_WORDS

    def apply(self, tokens: Sequence[str]) -> tuple[str, ...]:
        return (*tokens[: self.start], *self.said, *tokens[self.end :])

    def is_certain(self, tokens: Sequence[str], gain: float) -> bool:
        """Returns True if a gain in log probability, reduced for _DOUBTS, is too large for a mistake."""
        if self.fault != OTHER_WORDS:
            return gain >= _MIN_GAIN[self.fault]
        replaced = tokens[self.start : self.end]
        return gain >= _MIN_TOKEN_GAIN * len(replaced) and not any(map(_sound_alike, replaced, self.said))


class ComparedUtterance(NamedTuple):
    """An utterance, and what was heard in it."""

    labels: labelling.Labels
    speech: forced_alignment.RecognisedRecording
    scores: np.ndarray  # float [num_tokens], at most 0; see token_times.Alignment
    confidence: float  # mean probability of the best token, over the frames in which it beats the blank

    @property
    def agreement(self) -> float:
        """1 minus the number of edits per token of the transcript or the speech, whichever is longer."""
        return Levenshtein.normalized_similarity(self.labels.tokens, self.speech.tokens)

    @property
    def is_other_sentence(self) -> bool:
        loss = -np.sum(self.scores)
        return self.agreement < _MIN_AGREEMENT and loss >= _MIN_TOKEN_LOSS * len(self.scores)

    def list_edits(self) -> Iterator[tuple[int, TextEdit]]:
        """Yields the possible edits, each with the index of the difference that it would explain."""
        start = first = 0
        blocks = Levenshtein.editops(self.labels.tokens, self.speech.tokens).as_matching_blocks()
        for place, block in enumerate(blocks):
            said, size = tuple(self.speech.tokens[first : block.b]), block.a - start
            excess = len(said) - size
            if excess == 0 < size:
                yield place, TextEdit(start, block.a, said)
            for i in range(1 + min(size, len(said)) if excess else 0):
                added = said[i : i + max(excess, 0)]
                yield place, TextEdit(start + i, start + i + max(-excess, 0), added)
            start, first = block.a + block.size, block.b + block.size


def check(
    token_type: str,
    utterances: Sequence[manifest.Utterance],
    heard: Sequence[forced_alignment.RecognisedRecording],
) -> list[dict[str, object]]:
    """Compares utterances with what was heard in them.

    Returns:
        For each utterance, a dict with score (the sum of exp(token_times.Alignment.scores) over the tokens,
        divided by the number of tokens in the longer of transcript and speech), agreement, tokens (text, each
        with its score), heard (text), fault ("" if none was found), and words (text, the suspicious words).
    """
    labels = list(map(texts.load_labeller(token_type), utterances))
    scores = _score(heard, [label.tokens for label in labels])
    compared = list(map(ComparedUtterance, labels, heard, scores, map(_find_confidence, heard)))
    return [_describe(utterance, edits) for utterance, edits in zip(compared, _find_edits(compared))]


def _score(heard, token_lists) -> list[np.ndarray]:
    """Returns the scores of each list of tokens; all are _LOWEST if the tokens cannot be aligned."""
    scores = [np.full(len(tokens), _LOWEST) for tokens in token_lists]
    numbers = [i for i, tokens in enumerate(token_lists) if tokens and heard[i].segments]
    spans = [
        forced_alignment.TokenSpan(heard[i], 0, int(heard[i].firsts[-1]), token_lists[i]) for i in numbers
    ]
    for number, times in zip(numbers, forced_alignment.align_spans(spans)):
        if times is not None:
            scores[number] = times[2]
    return scores


def _find_edits(compared: Sequence[ComparedUtterance]) -> list[list[TextEdit]]:
    """Returns the suspicious edits of each utterance, beginning with the largest gain."""
    options = [
        (number, *option)
        for number, utterance in enumerate(compared)
        if utterance.speech.tokens and not utterance.is_other_sentence
        for option in utterance.list_edits()
    ]
    edited = [edit.apply(compared[number].labels.tokens) for number, _, edit in options]
    edited_scores = _score([compared[number].speech for number, *_ in options], edited)
    best: dict[tuple[int, int], tuple[float, TextEdit]] = {}
    for (number, place, edit), scores in zip(options, edited_scores):
        doubts = _DOUBTS * (1 - compared[number].confidence)
        gain = float(np.sum(scores) - np.sum(compared[number].scores)) - doubts
        best[number, place] = max(best.get((number, place), (gain, edit)), (gain, edit))
    certain: list[list[TextEdit]] = [[] for _ in compared]
    for (number, _), (gain, edit) in sorted(best.items(), key=lambda item: -item[1][0]):
        if edit.is_certain(compared[number].labels.tokens, gain):
            certain[number].append(edit)
    return certain


def _sound_alike(token: str, other: str) -> bool:
    """Returns True if two tokens have the same initial, or none, or the same final; tones may differ."""
    (*initial, final), (*other_initial, other_final) = map(syllables.split_initial_final, (token, other))
    return initial == other_initial or final.rstrip("12345") == other_final.rstrip("12345")


def _describe(utterance: ComparedUtterance, edits: Sequence[TextEdit]) -> dict[str, object]:
    tokens, said, probs = utterance.labels.tokens, utterance.speech.tokens, np.exp(utterance.scores)
    return {
        "score": round(float(np.sum(probs)) / max(len(tokens), len(said), 1), 3),
        "agreement": round(utterance.agreement, 3),
        "tokens": " ".join(f"{token}:{prob:.2f}" for token, prob in zip(tokens, probs)),
        "heard": " ".join(said),
        "fault": _find_fault(utterance, edits),
        "words": "; ".join(_describe_edit(utterance.labels, edit) for edit in edits),
    }


def _describe_edit(labels: labelling.Labels, edit: TextEdit) -> str:
    names = labels.characters if len(labels.characters) == len(labels.tokens) else labels.tokens
    text, said = " ".join(names[edit.start : edit.end]), " ".join(edit.said)
    return {LEFT_OUT: f"-{text}", ADDED: f"+{said}", OTHER_WORDS: f"{text} > {said}"}[edit.fault]


def _find_fault(utterance: ComparedUtterance, edits: Sequence[TextEdit]) -> str:
    tokens, speech = utterance.labels.tokens, utterance.speech
    if not speech.tokens:
        return SILENCE
    if utterance.is_other_sentence:
        num_known = np.count_nonzero(speech.segments[0].vocabulary.encode(tokens))
        is_known = num_known >= _MIN_KNOWN * len(tokens) and utterance.confidence >= _MIN_CONFIDENCE
        return OTHER_SENTENCE if is_known else OTHER_LANGUAGE
    fault = edits[0].fault if edits else ""
    if fault == LEFT_OUT and edits[0].start == 0 and speech.token_starts[0] < _CUT_SECONDS:
        return CUT_BEGIN
    seconds_after = speech.ends[-1] - speech.ends[speech.places[-1] + 1]
    is_cut = fault == LEFT_OUT and edits[0].end == len(tokens) and seconds_after < _CUT_SECONDS
    return CUT_END if is_cut else fault


def _find_confidence(speech: forced_alignment.RecognisedRecording) -> float:
    if not speech.tokens:
        return 0.0
    log_probs = forced_alignment.read_frames(speech, 0, int(speech.firsts[-1]))
    is_token = np.argmax(log_probs, axis=1) < log_probs.shape[1] - 1
    return float(np.mean(np.exp(np.max(log_probs, axis=1)[is_token])))
