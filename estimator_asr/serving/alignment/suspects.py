"""Finds utterances whose transcript is probably not what was said in the recording.

Where a transcript and the heard tokens differ, the transcript is edited there and aligned again. If the log
probability of the best path rises by more than a model's usual mistakes would explain, the words are suspicious.
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
SILENCE, OTHER_SENTENCE, OTHER_LANGUAGE = "silence", "another sentence", "other language"
CUT_BEGIN, CUT_END = "cut at the begin", "cut at the end"
UNCLEAR = "unclear"  # a low score, although no word is certainly wrong

# Differences of log probabilities (natural logarithms), chosen on the demo's corpus: docs/experiments/alignment.md.
_MIN_GAIN = {LEFT_OUT: 12.0, ADDED: 8.0}  # a model misses words more often than it adds some
_MIN_TOKEN_GAIN = 15.0  # for each token that was said instead of another
_MIN_TOKEN_LOSS = 6.0  # for each token of another sentence
_MIN_AGREEMENT = 0.5  # fraction of tokens that agree, unless the sentence is another
_MIN_CONFIDENCE = 0.75  # mean probability of the heard tokens; lower in other languages
_MIN_KNOWN = 0.5  # fraction of the transcript's tokens that are in the vocabulary
_CUT_SECONDS = 0.2  # speech that begins or ends closer to the ends of its recording may have been cut


class TextEdit(NamedTuple):
    """Replaces the tokens of a transcript from `start` to `end` by tokens that were heard."""

    start: int
    end: int
    said: tuple[str, ...]

    @property
    def fault(self) -> str:
        return LEFT_OUT if not self.said else ADDED if self.start == self.end else OTHER_WORDS

    def apply(self, tokens: Sequence[str]) -> tuple[str, ...]:
        return (*tokens[: self.start], *self.said, *tokens[self.end :])


class UtteranceCheck(NamedTuple):
    """An utterance with what was heard in it, and the scores of its tokens, float [num_tokens], at most 0."""

    labels: labelling.Labels
    speech: forced_alignment.RecognisedRecording
    scores: np.ndarray

    @property
    def agreement(self) -> float:
        """Fraction of the tokens, of the transcript or heard, whichever are more, that agree."""
        return Levenshtein.normalized_similarity(self.labels.tokens, self.speech.tokens)

    def is_other_sentence(self) -> bool:
        return self.agreement < _MIN_AGREEMENT and -np.mean(self.scores) >= _MIN_TOKEN_LOSS

    def list_edits(self) -> Iterator[tuple[int, TextEdit]]:
        """Yields the edits for each place where transcript and speech differ, with the number of the place."""
        tokens, heard = self.labels.tokens, self.speech.tokens
        start = first = 0
        for place, block in enumerate(Levenshtein.editops(tokens, heard).as_matching_blocks()):
            written, said, size = block.a - start, block.b - first, abs(block.a - start - block.b + first)
            for i in range(min(written, said) + 1 if size else 0):
                at = start + i
                is_added = said > written
                added = tuple(heard[first + i : first + i + size]) if is_added else ()
                yield place, TextEdit(at, at if is_added else at + size, added)
            if written == said > 0:
                yield place, TextEdit(start, block.a, tuple(heard[first : block.b]))
            start, first = block.a + block.size, block.b + block.size


def check(
    token_type: str,
    utterances: Sequence[manifest.Utterance],
    heard: Sequence[forced_alignment.RecognisedRecording],
) -> list[dict[str, object]]:
    """Compares utterances with what was heard in them.

    Returns:
        For each utterance, a dict with score (the mean over the tokens of exp(score), see
        token_times.Alignment; tokens that were heard and not written count as 0), agreement (see
        UtteranceCheck), tokens (each with its score, as text), heard, fault ("" if none was found) and words
        (the suspicious ones, as text).
    """
    labels = list(map(texts.load_labeller(token_type), utterances))
    scores = _score(heard, [label.tokens for label in labels])
    checks = list(map(UtteranceCheck, labels, heard, scores))
    return [_describe(each, edits) for each, edits in zip(checks, _find_edits(checks))]


def _score(heard, token_lists) -> list[np.ndarray]:
    """Returns the scores of each list of tokens; they are -inf if the tokens cannot be aligned."""
    scores = [np.full(len(tokens), -np.inf) for tokens in token_lists]
    numbers = [i for i, tokens in enumerate(token_lists) if tokens and heard[i].segments]
    spans = [
        forced_alignment.TokenSpan(heard[i], 0, int(heard[i].firsts[-1]), token_lists[i]) for i in numbers
    ]
    for number, times in zip(numbers, forced_alignment.align_spans(spans)):
        scores[number] = scores[number] if times is None else times[2]
    return scores


def _find_edits(checks: Sequence[UtteranceCheck]) -> list[list[TextEdit]]:
    """Returns the suspicious edits of each utterance, those with the strongest evidence first."""
    options = [
        (number, place, edit)
        for number, each in enumerate(checks)
        if each.speech.tokens and not each.is_other_sentence()
        for place, edit in each.list_edits()
    ]
    edited = [edit.apply(checks[number].labels.tokens) for number, _, edit in options]
    scores = _score([checks[number].speech for number, *_ in options], edited)
    best: dict[tuple[int, int], tuple[float, TextEdit]] = {}
    for (number, place, edit), after in zip(options, scores):
        total = np.sum(after) if len(after) else -np.inf
        gain = total - np.sum(checks[number].scores) if np.isfinite(total) else -np.inf
        best[number, place] = max(best.get((number, place), (-np.inf, edit)), (float(gain), edit))
    found: list[list[TextEdit]] = [[] for _ in checks]
    for (number, _), (gain, edit) in sorted(best.items(), key=lambda item: -item[1][0]):
        if _is_certain(checks[number].labels.tokens[edit.start : edit.end], edit, gain):
            found[number].append(edit)
    return found


def _is_certain(written: Sequence[str], edit: TextEdit, gain: float) -> bool:
    if edit.fault != OTHER_WORDS:
        return gain >= _MIN_GAIN[edit.fault]
    return gain >= _MIN_TOKEN_GAIN * len(written) and not any(map(_sound_alike, written, edit.said))


def _sound_alike(token: str, other: str) -> bool:
    """Returns True if two tokens have the same initial or the same final, or are not both syllables."""
    (*initial, final), (*other_initial, other_final) = map(syllables.split_initial_final, (token, other))
    return initial == other_initial or final.rstrip("12345") == other_final.rstrip("12345")


def _describe(each: UtteranceCheck, edits: Sequence[TextEdit]) -> dict:
    tokens, heard = each.labels.tokens, each.speech.tokens
    probs = np.exp(each.scores)
    return {
        "score": round(float(np.sum(probs)) / max(len(tokens), len(heard), 1), 3),
        "agreement": round(each.agreement, 3),
        "tokens": " ".join(f"{token}:{prob:.2f}" for token, prob in zip(tokens, probs)),
        "heard": " ".join(heard),
        "fault": _find_fault(each, edits),
        "words": "; ".join(_describe_edit(each.labels, edit) for edit in edits),
    }


def _describe_edit(labels: labelling.Labels, edit: TextEdit) -> str:
    is_paired = len(labels.characters) == len(labels.tokens)
    part = slice(edit.start, edit.end)
    written = "".join(labels.characters[part]) if is_paired else " ".join(labels.tokens[part])
    said = " ".join(edit.said)
    return {LEFT_OUT: f"-{written}", ADDED: f"+{said}", OTHER_WORDS: f"{written}>{said}"}[edit.fault]


def _find_fault(each: UtteranceCheck, edits: Sequence[TextEdit]) -> str:
    tokens, speech = each.labels.tokens, each.speech
    if not speech.tokens:
        return SILENCE
    if each.is_other_sentence():
        known = speech.segments[0].vocabulary.encode(tokens)
        is_known = np.count_nonzero(known) >= _MIN_KNOWN * len(known)
        return OTHER_SENTENCE if is_known and _find_confidence(speech) >= _MIN_CONFIDENCE else OTHER_LANGUAGE
    if not edits:
        return ""
    edit = edits[0]
    silence_after = speech.ends[-1] - speech.ends[speech.places[-1] + 1]
    if edit.fault == LEFT_OUT and edit.start == 0 and speech.token_starts[0] < _CUT_SECONDS:
        return CUT_BEGIN
    if edit.fault == LEFT_OUT and edit.end == len(tokens) and silence_after < _CUT_SECONDS:
        return CUT_END
    return edit.fault


def _find_confidence(speech: forced_alignment.RecognisedRecording) -> float:
    """Returns the mean probability of the tokens on the best path, over their frames."""
    log_probs = forced_alignment.read_frames(speech, 0, int(speech.firsts[-1]))
    is_token = np.argmax(log_probs, axis=1) < log_probs.shape[1] - 1
    return float(np.mean(np.exp(np.max(log_probs, axis=1)[is_token])))
