"""Writes report.html as a single file; the same build always produces the same bytes."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder.building import shard_statistics
from tfrecord_builder.building.report import charts
from tfrecord_builder.data import dataset_info, manifest, recordings, syllables, vocabulary
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.program import pages
from tfrecord_builder.storage import files

_HISTOGRAMS = (  # (title, field of ShardStatistics, number of keys in one unit, unit of the axis)
    ("Utterances by duration", "durations", 1000 // shard_statistics.DURATION_BIN_MS, "s"),
    ("Utterances by RMS level", "rms_levels", 1, "dBFS"),
    ("Utterances by peak level", "peak_levels", 1, "dBFS"),
)
_MANY_REJECTED = 0.01  # the page warns if a larger fraction of the utterances was rejected
_MANY_UNKNOWN = 0.01  # the page warns if a larger fraction of the labels in a split is unknown

NUM_LISTED = 30  # labels shown per list
NUM_REJECTED = 20  # utterances listed per reason

Rejection = tuple[str, str, str, Optional[str]]  # utterance_id, split, reason, audio
Totals = Mapping[str, shard_statistics.ShardStatistics]


class AudioLink(NamedTuple):
    """An utterance to listen to; url is empty if a browser cannot open the audio."""

    utterance_id: str
    value: str
    audio: str
    url: str


def write(
    path: str,
    info: dataset_info.DatasetInfo,
    totals: Totals,
    rejected: Iterable[Rejection],
    saved: vocabularies.Vocabularies,
    left_out: Mapping[str, int],
) -> None:
    """Writes the page about a build from the split statistics and the rejected utterances.

    left_out maps each kind of character left out of the labels to its count (normalisation.count_left_out).
    """
    totals = {name: totals[name] for name in sorted(totals, key=manifest.SPLITS.index)}
    all_splits = shard_statistics.ShardStatistics()
    for total in totals.values():
        all_splits.add(total)
    filters = {"number": "{:,}".format, "percentage": _format_percentage}
    template = pages.environment(os.path.dirname(__file__), **filters).get_template("page.html")
    html = template.render(
        info=info,
        totals=totals,
        all_splits=all_splits,
        findings=list(list_findings(info, totals)),
        histograms=list(_histograms(totals)),
        sounds=list(_sounds(totals, info.token_type)),
        labels={
            "Tokens": list_labels(_counts(totals, "token_counts"), saved.tokens),
            "Characters": list_labels(_counts(totals, "character_counts"), saved.characters),
        },
        left_out=_rank(left_out),
        audio={
            "longest": list_audio(all_splits.longest, lambda ms: f"{ms / 1000:.2f} s"),
            "loudest": list_audio(all_splits.loudest, lambda level: f"{level / 10:.1f} dBFS"),
            "quietest": list_audio(all_splits.quietest, lambda level: f"{-level / 10:.1f} dBFS"),
        },
        rejected=list_rejected(rejected),
    )
    with files.writing(path) as temporary:
        # Surrogates, which come from file names that are not UTF-8, become question marks, except in links.
        pathlib.Path(temporary).write_bytes(html.encode("utf-8", "replace"))


def list_findings(info: dataset_info.DatasetInfo, totals: Totals) -> Iterator[str]:
    """Yields sentences about rejected utterances, overlap between splits, unknown labels and clipping."""
    num_records = sum(split.num_utterances for split in info.splits.values())
    if info.num_rejected > _MANY_REJECTED * num_records:
        yield (
            f"{info.num_rejected:,} of {num_records + info.num_rejected:,} utterances were rejected; "
            "the reasons are at the end of this page."
        )
    for name in sorted(set(info.splits) - {"train"}):
        split = info.splits[name]
        yield from _overlap(name, "sentences", split.shared_sentences.get("train", 0), split.num_sentences)
        yield from _overlap(name, "speakers", split.shared_speakers.get("train", 0), split.num_speakers)
        yield from _unknown(name, "tokens", split.unknown_tokens, split.num_tokens)
        yield from _unknown(name, "characters", split.unknown_characters, split.num_characters)
    if "train" not in info.splits:
        yield "There is no train split."
    clipped = sum(total.clipped_utterances for total in totals.values())
    if clipped:
        yield f"{clipped:,} of {num_records:,} utterances are clipped (several full-scale samples in a row)."


def _overlap(split: str, noun: str, shared: int, total: int) -> Iterator[str]:
    if shared and shared == total:
        yield (
            f"All {noun} in {split} ({shared:,}) are also in train: an error rate on {split} says nothing "
            f"about new {noun}."
        )
    elif shared:
        yield (
            f"{shared:,} of the {total:,} {noun} in {split} ({100 * shared / total:.1f} %) are also in "
            f"train: the error rate on {split} is lower than on new {noun} alone."
        )


def _unknown(split: str, noun: str, unknown: int, total: int) -> Iterator[str]:
    if unknown > _MANY_UNKNOWN * total:
        yield (
            f"{unknown:,} of the {total:,} {noun} in {split} ({100 * unknown / total:.1f} %) are not in the "
            "vocabulary; the model cannot recognise them."
        )


def _histograms(totals: Totals) -> Iterator[charts.Chart]:
    for title, field, per_unit, unit in _HISTOGRAMS:
        counts = _counts(totals, field)
        if any(counts.values()):
            yield charts.histogram(title, counts, per_unit, unit)


def _sounds(totals: Totals, token_type: str) -> Iterator[charts.Chart]:
    by_split = {name: charts.count_sounds(total.token_counts, token_type) for name, total in totals.items()}
    occurring = {final for sounds in by_split.values() for final in sounds.get("finals", ())}
    for kind, names in (
        ("tones", (*syllables.TONES, charts.OTHER_TONE)),
        ("initials", charts.INITIALS),
        ("finals", [final for final in (*syllables.FINALS, charts.ER_HUA) if final in occurring]),
    ):
        counts = {name: sounds.get(kind, {}) for name, sounds in by_split.items()}
        if any(counts.values()):
            yield charts.categories(kind.capitalize(), counts, names)


def _counts(totals: Totals, field: str) -> dict[str, dict[str, int]]:
    return {split: getattr(total, field) for split, total in totals.items()}


def _format_percentage(part: int, total: int) -> str:
    return f"{100 * part / total:.2f} %" if total else "-"


def list_labels(counts: Mapping[str, Mapping[str, int]], labels: vocabulary.Vocabulary) -> dict:
    """Summarises the labels in all splits; `counts` maps split -> label -> count.

    Returns the size of the vocabulary, the number of its labels that never occur in train, the number that
    occur once, the most and the least frequent (label, count) pairs in train, the unknown labels in all
    splits, and each split's numbers of labels, distinct known labels and unknown labels.
    """
    in_vocabulary = set(labels.tokens) - {vocabulary.UNKNOWN}
    train = {label: count for label, count in counts.get("train", {}).items() if label in in_vocabulary}
    unknown, coverage = collections.Counter(), {}
    for split, split_counts in counts.items():
        outside = {label: count for label, count in split_counts.items() if label not in in_vocabulary}
        unknown.update(outside)
        total, distinct = sum(split_counts.values()), len(split_counts) - len(outside)
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
    """Returns links to the utterances in ShardStatistics.longest or similar; `describe` formats values."""
    return [
        AudioLink(name, describe(value), audio, recordings.url(audio, start, seconds))
        for value, name, audio, start, seconds in entries
    ]


def list_rejected(rejected: Iterable[Rejection]) -> list[tuple[str, int, list[AudioLink]]]:
    """Groups rejected utterances by reason, starting with the most frequent reason.

    The text after ": " in a reason applies to one utterance only, and is shown next to that utterance.
    Returns (reason, count, the first NUM_REJECTED utterances) for each reason.
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
