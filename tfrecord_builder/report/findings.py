"""What to know of the data before training on them, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfrecord_builder import dataset_info
from tfrecord_builder.building import shard_statistics

_MANY_REJECTED = 0.01
_MANY_UNKNOWN = 0.01

Totals = Mapping[str, shard_statistics.ShardStatistics]


def find(info: dataset_info.DatasetInfo, totals: Totals) -> Iterator[str]:
    """Yields sentences on what was rejected, what splits share, what labels are unknown, what clips."""
    kept = sum(split.num_utterances for split in info.splits.values())
    if info.num_rejected > _MANY_REJECTED * kept:
        yield (
            f"{info.num_rejected:,} of {kept + info.num_rejected:,} utterances were left out; "
            "see why at the end of this page."
        )
    for name in _others(info):
        yield from _sentences(name, info.splits[name])
        yield from _speakers(name, totals)
        yield from _unknown(name, info.splits[name])
    if "train" not in info.splits:
        yield "There is no train split."
    clipped = sum(total.clipped_utterances for total in totals.values())
    if clipped:
        yield f"{clipped:,} of {kept:,} utterances clip: they are flat at full scale."


def _others(info: dataset_info.DatasetInfo) -> list[str]:
    return sorted(name for name in info.splits if name != "train")


def _sentences(name: str, split: dataset_info.SplitInfo) -> Iterator[str]:
    shared = split.shared_sentences.get("train")
    if not shared:
        return
    if shared == split.num_sentences:
        yield (
            f"All sentences of {name} ({shared:,}) stand in train too: an error rate on {name} says nothing "
            "about new sentences."
        )
    else:
        share = 100 * shared / split.num_sentences
        yield (
            f"{shared:,} of the {split.num_sentences:,} sentences of {name} ({share:.1f} %) stand in train "
            f"too: an error rate on {name} is better than one on new sentences alone."
        )


def _speakers(name: str, totals: Totals) -> Iterator[str]:
    theirs = set(totals[name].speakers) - {""} if name in totals else set()
    shared = theirs & set(totals["train"].speakers) if "train" in totals else set()
    if shared and shared == theirs:
        yield (
            f"All speakers of {name} ({len(theirs):,}) speak in train too: an error rate on {name} says "
            "nothing about new voices."
        )
    elif shared:
        yield (
            f"{len(shared):,} of the {len(theirs):,} speakers of {name} speak in train too: an error rate on "
            f"{name} is better than one on new voices alone."
        )


def _unknown(name: str, split: dataset_info.SplitInfo) -> Iterator[str]:
    for what, number, total in (
        ("tokens", split.unknown_tokens, split.num_tokens),
        ("characters", split.unknown_characters, split.num_characters),
    ):
        if number > _MANY_UNKNOWN * total:
            yield (
                f"{number:,} of the {total:,} {what} of {name} ({100 * number / total:.1f} %) are not in the "
                "vocabulary, so no model can write them."
            )
