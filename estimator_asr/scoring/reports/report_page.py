"""report.html: one file without any request, whose tables are sorted and filtered by page/report.js."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterator, Mapping

import jinja2
import markupsafe

from estimator_asr.scoring import (
    attribution,
    biasing,
    breakdown,
    error_rate,
    floors,
    syllable_parts,
    utterances,
)
from estimator_asr.scoring.reports import (
    advice,
    clips,
    confusion_matrix,
    formats,
    scored_split,
    utterance_rows,
)
from tfrecord_builder.runtime import pages

_NUM_EMBEDDED = 50  # recordings, those of the utterances with the most errors
_NUM_CONFUSIONS = 40
_PARTS = (*syllable_parts.PARTS, syllable_parts.SENTENCE_ERROR_RATE, biasing.BIASED, biasing.UNBIASED)
_WITH_UNREACHABLE = ("with a character or syllable outside of the vocabulary", "without")


def render(split: scored_split.ScoredSplit, values: Mapping) -> str:
    """Returns the page; `values` is the content of metrics.json."""
    is_silent = not any(row.hypothesis_tokens for row in split.scored)
    levels = clips.measure_levels(split.recordings)
    return template("report.html").render(
        facts=split.facts,
        command=split.command,
        metrics=values,
        advice=list(advice.list_advice(values, is_silent)),
        sections=[_section(split, name) for name in split.measures],
        parts={formats.format_name(name): values[name] for name in _PARTS if name in values},
        causes=attribution.CAUSES,
        floors=floors.FLOORS,
        matrices=confusion_matrix.count_all(split.positions),
        breakdowns={title: _as_dicts(rates) for title, rates in _break_down(split, levels)},
        data=_data(split, levels),
    )


def _section(split: scored_split.ScoredSplit, name: str) -> dict:
    scored = split.measures[name]
    return {
        "name": name,
        "title": formats.format_name(name),
        "lengths": breakdown.by_length(scored, split.are_speakers_people),
        # The table of characters or tokens has those of the last measure.
        "confusions": breakdown.confusions(scored, _NUM_CONFUSIONS) if name != split.measure else [],
    }


def _break_down(
    split: scored_split.ScoredSplit, levels: Mapping[str, float]
) -> Iterator[tuple[str, dict[str, error_rate.ErrorRate]]]:
    """Yields the title and the error rates of each further breakdown."""
    options = {"are_speakers_people": split.are_speakers_people}
    unreachable = {
        row.utterance_id
        for row, positions in zip(split.scored, split.positions)
        if any(each.cause == attribution.UNREACHABLE for each in positions)
    }
    if levels:
        yield "By loudness", breakdown.by_level(split.scored, levels, **options)
    if unreachable:
        rates = breakdown.by_membership(split.scored, unreachable, _WITH_UNREACHABLE, **options)
        yield "By vocabulary", rates


def _as_dicts(rates: Mapping[str, error_rate.ErrorRate]) -> dict[str, dict]:
    return {name: dataclasses.asdict(rate) for name, rate in rates.items()}


def _data(split: scored_split.ScoredSplit, levels: Mapping[str, float]) -> dict:
    worst = [row.utterance_id for row in breakdown.worst(split.scored, _NUM_EMBEDDED)]
    audio = clips.embed(split.recordings, worst)
    return {
        "separator": " " if split.measure == utterances.TOKEN_ERROR_RATE else "",
        "causes": list(attribution.CAUSES),
        **utterance_rows.list_rows(split.scored, split.positions, split.outputs, levels),
        "audio": audio,
        "files": utterance_rows.list_files(split.recordings, set(audio)),
    }


def template(name: str) -> jinja2.Template:
    """Returns a template of page/, which can include the files beside it."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> jinja2.Environment:
    return pages.environment(
        pathlib.Path(__file__).with_name("page"),
        percent=formats.format_percent,
        rate=formats.format_rate,
        speakers=formats.describe_speakers,
        name=formats.format_name,
        json=_to_json,
    )


def _to_json(value: object) -> markupsafe.Markup:
    """Returns JSON that stands in a <script>: nothing in it ends the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return markupsafe.Markup(text.replace("<", "\\u003c"))
