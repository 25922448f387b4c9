"""What the page lists: labels by frequency, utterances to listen to, the rejected by reason."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from tfrecord_builder import vocabulary

NUM_LISTED = 30
NUM_REJECTED = 20
_PLAYABLE = ("http://", "https://", "file://")

Rejection = tuple[str, str, str, Optional[str]]  # utterance_id, split, reason, audio


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How the labels of one split lie in the vocabulary.

    Attributes:
      different: how many of the vocabulary occur.
      unknown: how many labels, repeats counted, are not in it.
    """

    split: str
    total: int
    different: int
    unknown: int


@dataclasses.dataclass(frozen=True)
class LabelListing:
    """Labels of one kind: coverage by split; (label, count) of train; (label, count) that are unknown."""

    size: int
    coverage: Sequence[Coverage]
    never: int
    once: int
    frequent: Sequence[tuple[str, int]]
    rare: Sequence[tuple[str, int]]
    unknown: Sequence[tuple[str, int]]
    num_unknown: int


@dataclasses.dataclass(frozen=True)
class Recording:
    """An utterance to listen to; url is empty where a browser cannot open it."""

    utterance_id: str
    value: str
    audio: str
    url: str


@dataclasses.dataclass
class Reason:
    """Why utterances were rejected: how many, and the first of them."""

    reason: str
    count: int = 0
    first: list = dataclasses.field(default_factory=list)


def list_labels(counts: Mapping[str, Mapping[str, int]], known: vocabulary.Vocabulary) -> LabelListing:
    """Lists labels.

    Args:
      counts: split -> label -> how often it occurs.
      known: their vocabulary.
    """
    in_vocabulary = set(known.tokens) - {vocabulary.UNKNOWN}
    train = {label: n for label, n in counts.get("train", {}).items() if label in in_vocabulary}
    unknown: collections.Counter[str] = collections.Counter()
    for tally in counts.values():
        unknown.update({label: n for label, n in tally.items() if label not in in_vocabulary})
    ranked = sorted(train.items(), key=lambda pair: (-pair[1], pair[0]))
    return LabelListing(
        size=len(in_vocabulary),
        coverage=[_cover(split, tally, in_vocabulary) for split, tally in counts.items()],
        never=len(in_vocabulary) - len(train),
        once=sum(n == 1 for n in train.values()),
        frequent=ranked[:NUM_LISTED],
        rare=sorted(ranked[NUM_LISTED:], key=lambda pair: (pair[1], pair[0]))[:NUM_LISTED],
        unknown=sorted(unknown.items(), key=lambda pair: (-pair[1], pair[0]))[:NUM_LISTED],
        num_unknown=len(unknown),
    )


def list_recordings(entries: Sequence[Sequence], describe) -> list[Recording]:
    """Lists the extremes of ShardStatistics; describe writes their value for people."""
    return [
        Recording(name, describe(value), audio, _url(audio, start, seconds))
        for value, name, audio, start, seconds in entries
    ]


def list_rejected(rejected: Iterable[Rejection]) -> list[Reason]:
    """Groups the rejected by reason, the most frequent first; each keeps its first NUM_REJECTED.

    What follows ": " in a reason is a detail of the utterance, and is listed with it.
    """
    reasons: dict[str, Reason] = {}
    for utterance_id, split, reason, audio in rejected:
        kind, _, detail = reason.partition(": ")
        group = reasons.setdefault(kind, Reason(kind))
        group.count += 1
        if len(group.first) < NUM_REJECTED:
            url = _url(audio, 0.0, None) if audio else ""
            value = f"{split}, {detail}" if detail else split
            group.first.append(Recording(utterance_id, value, audio or "", url))
    return sorted(reasons.values(), key=lambda group: (-group.count, group.reason))


def _cover(split: str, tally: Mapping[str, int], in_vocabulary: set[str]) -> Coverage:
    known = [n for label, n in tally.items() if label in in_vocabulary]
    total = sum(tally.values())
    return Coverage(split, total, len(known), total - sum(known))


def _url(audio: str, start_seconds: float, seconds: Optional[float]) -> str:
    """Gives what a browser plays: the utterance alone, where it is a part of the recording."""
    if "://" in audio and not audio.startswith(_PLAYABLE):
        return ""
    url = audio if "://" in audio else pathlib.Path(os.path.abspath(audio)).as_uri()
    end = "" if seconds is None else f",{start_seconds + seconds:g}"
    return f"{url}#t={start_seconds:g}{end}" if start_seconds or end else url
