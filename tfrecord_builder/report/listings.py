"""The lists of the page: labels by frequency, utterances to listen to, rejected utterances by reason."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder.data import recordings
from tfrecord_builder.tokens import vocabulary

NUM_LISTED = 30
NUM_REJECTED = 20

Rejection = tuple[str, str, str, Optional[str]]  # utterance_id, split, reason, audio


class AudioLink(NamedTuple):
    """An utterance to listen to; url is empty if a browser cannot open it."""

    utterance_id: str
    value: str
    audio: str
    url: str


def list_labels(counts: Mapping[str, Mapping[str, int]], labels: vocabulary.Vocabulary) -> dict:
    """Lists the labels of splits: counts maps split to label to count.

    Returns:
        The size of the vocabulary; how many of it occur never or once in train; the most and the least
        frequent (label, count) of train; unknown labels of all splits; and the numbers of labels, distinct
        known labels and unknown labels by split.
    """
    in_vocabulary = set(labels.tokens) - {vocabulary.UNKNOWN}
    train = {label: count for label, count in counts.get("train", {}).items() if label in in_vocabulary}
    unknown, coverage = collections.Counter(), {}
    for split, of_split in counts.items():
        outside = {label: count for label, count in of_split.items() if label not in in_vocabulary}
        unknown.update(outside)
        total, distinct = sum(of_split.values()), len(of_split) - len(outside)
        coverage[split] = {"total": total, "distinct": distinct, "unknown": sum(outside.values())}
    ranked = _rank(train)
    return {
        "size": len(in_vocabulary),
        "never": len(in_vocabulary) - len(train),
        "once": sum(count == 1 for count in train.values()),
        "frequent": ranked[:NUM_LISTED],
        "rare": sorted(ranked[NUM_LISTED:], key=lambda pair: (pair[1], pair[0]))[:NUM_LISTED],
        "unknown": _rank(unknown)[:NUM_LISTED],
        "num_unknown": len(unknown),
        "coverage": coverage,
    }


def _rank(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def list_audio(entries: Sequence[Sequence], describe) -> list[AudioLink]:
    """Lists the extremes of ShardStatistics; describe formats their value."""
    return [
        AudioLink(name, describe(value), audio, recordings.url(audio, start, seconds))
        for value, name, audio, start, seconds in entries
    ]


def list_rejected(rejected: Iterable[Rejection]) -> list[tuple[str, int, list[AudioLink]]]:
    """Groups rejected utterances by reason, the most frequent first.

    What follows ": " in a reason is a detail of the utterance, and is listed with it.

    Returns:
        (reason, count, the first NUM_REJECTED utterances) of each reason.
    """
    counts, first = collections.Counter(), {}
    for utterance_id, split, reason, audio in rejected:
        kind, _, detail = reason.partition(": ")
        counts[kind] += 1
        if counts[kind] <= NUM_REJECTED:
            value = f"{split}, {detail}" if detail else split
            url = recordings.url(audio, 0.0, None) if audio else ""
            first.setdefault(kind, []).append(AudioLink(utterance_id, value, audio or "", url))
    return [(kind, count, first[kind]) for kind, count in _rank(counts)]
