"""report.html: one file without any other, that says the same of the same build, byte for byte."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable

import jinja2

from tfrecord_builder import dataset_info, files, syllables
from tfrecord_builder.building import shard_statistics
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.report import charts, findings, listings, sounds

_TEMPLATE = "page.html"
_SPLITS = ("train", "dev", "test")


def write(
    path: str,
    info: dataset_info.DatasetInfo,
    shards: Iterable[shard_statistics.ShardStatistics],
    rejected: Iterable[listings.Rejection],
    saved: vocabularies.Vocabularies,
) -> None:
    """Writes the page.

    Args:
      path: where to.
      info: of the build.
      shards: its statistics, read once, one by one.
      rejected: (utterance_id, split, reason, audio or None) of what was left out, read once.
      saved: its vocabularies.
    """
    html = render(info, add_up(shards), rejected, saved)
    with files.writing(path) as temporary:
        # A file name that is no UTF-8 has surrogates; it is shown with question marks and linked as it is.
        pathlib.Path(temporary).write_bytes(html.encode("utf-8", "replace"))


def add_up(shards: Iterable[shard_statistics.ShardStatistics]) -> dict[str, shard_statistics.ShardStatistics]:
    """Adds up the shards of each split; gives train, dev, test, and others by name."""
    totals: dict[str, shard_statistics.ShardStatistics] = {}
    for shard in shards:
        if shard.split not in totals:
            totals[shard.split] = shard_statistics.ShardStatistics(file="", split=shard.split)
        totals[shard.split].add(shard)
    order = sorted(totals, key=lambda name: (_SPLITS.index(name) if name in _SPLITS else 9, name))
    return {name: totals[name] for name in order}


def render(
    info: dataset_info.DatasetInfo,
    totals: dict[str, shard_statistics.ShardStatistics],
    rejected: Iterable[listings.Rejection],
    saved: vocabularies.Vocabularies,
) -> str:
    """Gives the page as text; see write for the arguments, add_up for totals."""
    whole = shard_statistics.ShardStatistics(file="", split="")
    for total in totals.values():
        whole.add(total)
    return _template().render(
        info=info,
        totals=totals,
        whole=whole,
        findings=list(findings.find(info, totals)),
        durations=_durations(totals),
        levels=_levels(totals),
        sounds=_sounds(totals, info.token_type),
        labels={
            "Tokens": listings.list_labels(_each(totals, "token_counts"), saved.tokens),
            "Characters": listings.list_labels(_each(totals, "character_counts"), saved.characters),
        },
        recordings={
            "longest": listings.list_recordings(whole.longest, lambda ms: f"{ms / 1000:.2f} s"),
            "loudest": listings.list_recordings(whole.loudest, lambda level: f"{level / 10:.1f} dBFS"),
            "quietest": listings.list_recordings(whole.quietest, lambda level: f"{-level / 10:.1f} dBFS"),
        },
        rejected=listings.list_rejected(rejected),
        width=charts.WIDTH,
        height=charts.HEIGHT,
    )


def _durations(totals: dict[str, shard_statistics.ShardStatistics]) -> list[charts.Chart]:
    counts = _each(totals, "durations")
    per_second = 1000 // shard_statistics.DURATION_BIN_MS
    return (
        [charts.histogram("Utterances by duration", counts, per_second, "s")] if any(counts.values()) else []
    )


def _levels(totals: dict[str, shard_statistics.ShardStatistics]) -> list[charts.Chart]:
    found = {"Utterances by RMS level": "rms_levels", "Utterances by peak level": "peak_levels"}
    counts = {title: _each(totals, name) for title, name in found.items()}
    return [charts.histogram(title, each, 1, "dBFS") for title, each in counts.items() if any(each.values())]


def _sounds(totals: dict[str, shard_statistics.ShardStatistics], token_type: str) -> list[charts.Chart]:
    by_split = {name: sounds.count(total.token_counts, token_type) for name, total in totals.items()}
    drawn = []
    for title, kind, order in (
        ("Tones", "tones", (*syllables.TONES, sounds.OTHER)),
        ("Initials", "initials", sounds.INITIALS),
        ("Finals", "finals", _finals(by_split)),
    ):
        counts = {name: found.get(kind, {}) for name, found in by_split.items()}
        if any(counts.values()):
            drawn.append(charts.categories(title, counts, order))
    return drawn


def _finals(by_split: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    """Gives the finals that occur: some stand for an interjection alone."""
    occurring = {final for found in by_split.values() for final in found.get("finals", ())}
    return [final for final in (*syllables.FINALS, sounds.ER_HUA) if final in occurring]


def _each(totals: dict[str, shard_statistics.ShardStatistics], name: str) -> dict[str, dict[str, int]]:
    return {split: getattr(total, name) for split, total in totals.items()}


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number="{:,}".format, share=_format_share)
    return environment.from_string(pathlib.Path(__file__).with_name(_TEMPLATE).read_text("utf-8"))


def _format_share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
