"""report.html: one file, the same bytes for the same build."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping

import jinja2

from tfrecord_builder import dataset_info, files, syllables
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.records import shard_statistics
from tfrecord_builder.report import charts, findings, listings, sounds

_SPLITS = ("train", "dev", "test")
_HISTOGRAMS = (  # title, field of ShardStatistics, integers per unit, unit
    ("Utterances by duration", "durations", 1000 // shard_statistics.DURATION_BIN_MS, "s"),
    ("Utterances by RMS level", "rms_levels", 1, "dBFS"),
    ("Utterances by peak level", "peak_levels", 1, "dBFS"),
)


def write(
    path: str,
    info: dataset_info.DatasetInfo,
    totals: Mapping[str, shard_statistics.ShardStatistics],
    rejected: Iterable[listings.Rejection],
    saved: vocabularies.Vocabularies,
) -> None:
    """Writes the page of a build from its statistics by split and its rejected utterances."""
    order = sorted(totals, key=lambda name: (_SPLITS.index(name) if name in _SPLITS else 9, name))
    html = _render(info, {name: totals[name] for name in order}, rejected, saved)
    with files.writing(path) as temporary:
        # A file name that is not UTF-8 has surrogates; it is shown with question marks and linked as it is.
        pathlib.Path(temporary).write_bytes(html.encode("utf-8", "replace"))


def _render(
    info: dataset_info.DatasetInfo,
    totals: dict[str, shard_statistics.ShardStatistics],
    rejected: Iterable[listings.Rejection],
    saved: vocabularies.Vocabularies,
) -> str:
    all_splits = shard_statistics.ShardStatistics()
    for total in totals.values():
        all_splits.add(total)
    return _template().render(
        info=info,
        totals=totals,
        all_splits=all_splits,
        findings=list(findings.find(info, totals)),
        histograms=list(_histograms(totals)),
        sounds=list(_sounds(totals, info.token_type)),
        labels={
            "Tokens": listings.list_labels(_counts(totals, "token_counts"), saved.tokens),
            "Characters": listings.list_labels(_counts(totals, "character_counts"), saved.characters),
        },
        audio={
            "longest": listings.list_audio(all_splits.longest, lambda ms: f"{ms / 1000:.2f} s"),
            "loudest": listings.list_audio(all_splits.loudest, lambda level: f"{level / 10:.1f} dBFS"),
            "quietest": listings.list_audio(all_splits.quietest, lambda level: f"{-level / 10:.1f} dBFS"),
        },
        rejected=listings.list_rejected(rejected),
    )


def _histograms(totals: dict[str, shard_statistics.ShardStatistics]) -> Iterator[charts.Chart]:
    for title, field, per_unit, unit in _HISTOGRAMS:
        counts = _counts(totals, field)
        if any(counts.values()):
            yield charts.histogram(title, counts, per_unit, unit)


def _sounds(totals: dict[str, shard_statistics.ShardStatistics], token_type: str) -> Iterator[charts.Chart]:
    by_split = {name: sounds.count(total.token_counts, token_type) for name, total in totals.items()}
    occurring = {final for found in by_split.values() for final in found.get("finals", ())}
    for kind, names in (
        ("tones", (*syllables.TONES, sounds.OTHER)),
        ("initials", sounds.INITIALS),
        ("finals", [final for final in (*syllables.FINALS, sounds.ER_HUA) if final in occurring]),
    ):
        counts = {name: found.get(kind, {}) for name, found in by_split.items()}
        if any(counts.values()):
            yield charts.categories(kind.capitalize(), counts, names)


def _counts(totals: dict[str, shard_statistics.ShardStatistics], field: str) -> dict[str, dict[str, int]]:
    return {split: getattr(total, field) for split, total in totals.items()}


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number="{:,}".format, percentage=_format_percentage)
    return environment.from_string(pathlib.Path(__file__).with_name("page.html").read_text("utf-8"))


def _format_percentage(part: int, total: int) -> str:
    return f"{100 * part / total:.2f} %" if total else "-"
