"""The lists of the page: labels by frequency, utterances to listen to, rejected utterances by reason."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder import vocabulary

NUM_LISTED = 30
NUM_REJECTED = 20
_PLAYABLE = ("http://", "https://", "file://")

Rejection = tuple[str, str, str, Optional[str]]  # utterance_id, split, reason, audio


class Coverage(NamedTuple):
    """Labels of a split: all, different ones in the vocabulary, and unknown ones."""

    split: str
    total: int
    different: int
    unknown: int


@dataclasses.dataclass(frozen=True)
class LabelList:
    """Labels of one kind; frequent and rare are (label, count) of train, unknown of all splits.

    Attributes:
      size: of the vocabulary.
      never: how many of the vocabulary do not occur in train.
      once: how many occur once in train.
      num_unknown: how many different labels are unknown.
    """

    size: int
    coverage: Sequence[Coverage]
    never: int
    once: int
    frequent: Sequence[tuple[str, int]]
    rare: Sequence[tuple[str, int]]
    unknown: Sequence[tuple[str, int]]
    num_unknown: int


class AudioLink(NamedTuple):
    """An utterance to listen to; url is empty if a browser cannot open it."""

    utterance_id: str
    value: str
    audio: str
    url: str


@dataclasses.dataclass
class RejectionReason:
    """Why utterances were rejected: how many, and the first of them."""

    reason: str
    count: int = 0
    first: list[AudioLink] = dataclasses.field(default_factory=list)


def list_labels(counts: Mapping[str, Mapping[str, int]], known: vocabulary.Vocabulary) -> LabelList:
    """Lists labels.

    Args:
      counts: split -> label -> count.
      known: their vocabulary.
    """
    in_vocabulary = set(known.tokens) - {vocabulary.UNKNOWN}
    train = {label: count for label, count in counts.get("train", {}).items() if label in in_vocabulary}
    unknown: collections.Counter[str] = collections.Counter()
    coverage = []
    for split, found in counts.items():
        not_known = {label: count for label, count in found.items() if label not in in_vocabulary}
        unknown.update(not_known)
        different = len(found) - len(not_known)
        coverage.append(Coverage(split, sum(found.values()), different, sum(not_known.values())))
    ranked = _rank(train)
    return LabelList(
        size=len(in_vocabulary),
        coverage=coverage,
        never=len(in_vocabulary) - len(train),
        once=sum(count == 1 for count in train.values()),
        frequent=ranked[:NUM_LISTED],
        rare=sorted(ranked[NUM_LISTED:], key=lambda pair: (pair[1], pair[0]))[:NUM_LISTED],
        unknown=_rank(unknown)[:NUM_LISTED],
        num_unknown=len(unknown),
    )


def _rank(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def list_audio(entries: Sequence[Sequence], describe) -> list[AudioLink]:
    """Lists the extremes of ShardStatistics; describe formats their value."""
    return [
        AudioLink(name, describe(value), audio, _url(audio, start, seconds))
        for value, name, audio, start, seconds in entries
    ]


def list_rejected(rejected: Iterable[Rejection]) -> list[RejectionReason]:
    """Groups rejected utterances by reason, the most frequent first, with NUM_REJECTED examples.

    What follows ": " in a reason is a detail of the utterance, and is listed with it.
    """
    reasons: dict[str, RejectionReason] = {}
    for utterance_id, split, reason, audio in rejected:
        kind, _, detail = reason.partition(": ")
        group = reasons.setdefault(kind, RejectionReason(kind))
        group.count += 1
        if len(group.first) < NUM_REJECTED:
            url = _url(audio, 0.0, None) if audio else ""
            group.first.append(
                AudioLink(utterance_id, f"{split}, {detail}" if detail else split, audio or "", url)
            )
    return sorted(reasons.values(), key=lambda group: (-group.count, group.reason))


def _url(audio: str, start_seconds: float, seconds: Optional[float]) -> str:
    """Returns what a browser plays: the segment alone, if the utterance is one."""
    if "://" in audio and not audio.startswith(_PLAYABLE):
        return ""
    url = audio if "://" in audio else pathlib.Path(os.path.abspath(audio)).as_uri()
    end = "" if seconds is None else f",{start_seconds + seconds:g}"
    return f"{url}#t={start_seconds:g}{end}" if start_seconds or end else url
