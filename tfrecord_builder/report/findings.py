"""What to know about the data before training on them, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfrecord_builder import dataset_info
from tfrecord_builder.records import shard_statistics

_MANY_REJECTED = 0.01
_MANY_UNKNOWN = 0.01

Totals = Mapping[str, shard_statistics.ShardStatistics]


def find(info: dataset_info.DatasetInfo, totals: Totals) -> Iterator[str]:
    """Yields sentences about rejected utterances, overlap of splits, unknown labels and clipping."""
    kept = sum(split.num_utterances for split in info.splits.values())
    if info.num_rejected > _MANY_REJECTED * kept:
        yield (
            f"{info.num_rejected:,} of {kept + info.num_rejected:,} utterances were rejected; "
            "the reasons are at the end of this page."
        )
    for name in sorted(set(info.splits) - {"train"}):
        split = info.splits[name]
        yield from _overlap(name, "sentences", split.shared_sentences.get("train", 0), split.num_sentences)
        if name in totals and "train" in totals:
            speakers = set(totals[name].speakers) - {""}
            yield from _overlap(name, "speakers", len(speakers & {*totals["train"].speakers}), len(speakers))
        yield from _unknown(name, "tokens", split.unknown_tokens, split.num_tokens)
        yield from _unknown(name, "characters", split.unknown_characters, split.num_characters)
    if "train" not in info.splits:
        yield "There is no train split."
    clipped = sum(total.clipped_utterances for total in totals.values())
    if clipped:
        yield f"{clipped:,} of {kept:,} utterances clip: several samples in a row are at full scale."


def _overlap(split: str, noun: str, shared: int, total: int) -> Iterator[str]:
    if shared and shared == total:
        yield (
            f"All {noun} of {split} ({shared:,}) are also in train: an error rate on {split} says nothing "
            f"about new {noun}."
        )
    elif shared:
        yield (
            f"{shared:,} of the {total:,} {noun} of {split} ({100 * shared / total:.1f} %) are also in "
            f"train: the error rate on {split} is lower than on new {noun} alone."
        )


def _unknown(split: str, noun: str, unknown: int, total: int) -> Iterator[str]:
    if unknown > _MANY_UNKNOWN * total:
        yield (
            f"{unknown:,} of the {total:,} {noun} of {split} ({100 * unknown / total:.1f} %) are not in the "
            "vocabulary; the model cannot recognise them."
        )
