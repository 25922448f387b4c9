"""Renders report.html, a self-contained file whose tables page/report.js sorts and filters."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Optional

import jinja2
import markupsafe

from estimator_asr.scoring import attribution, biasing, breakdown, utterances
from estimator_asr.scoring.reports import clips, formats, scored_split
from tfrecord_builder.data import recordings
from tfrecord_builder.program import pages

_NUM_EMBEDDED = 50  # the page contains at most this many recordings: those with the most errors
_NUM_CONFUSIONS = 40
_PARTS = (
    *(*breakdown.PARTS, breakdown.SENTENCE_ERROR_RATE, biasing.BIASED, biasing.UNBIASED),
    scored_split.WRITTEN_FORM,
)
_CAUSES = list(attribution.CAUSES)
_WITH_UNREACHABLE = (
    "with characters or syllables outside the vocabulary",
    "without such characters or syllables",
)


def render(split: scored_split.ScoredSplit, values: Mapping) -> str:
    """Returns the page; `values` are the contents of metrics.json."""
    is_silent = not any(row.hypothesis_tokens for row in split.scored)
    levels = clips.measure_levels(split.recordings)
    floors = {scored_split.FLOORS[name]: rate for name, rate in values["floors"].items()}
    named = [name for name in (*split.measures, *_PARTS) if name in values]
    return template("report.html").render(
        facts=split.facts,
        command=split.command,
        metrics=values,
        delay=formats.describe_delay(values["emission_delay"]) if "emission_delay" in values else "",
        advice=list(formats.list_advice(values, is_silent)),
        sections=[_section(split, values, name) for name in split.measures],
        overall=_separate({formats.format_name(name): values[name] for name in named}),
        causes=_most_first(values["attribution"]),
        meanings=attribution.CAUSES,
        floors=_separate(floors),
        matrices=breakdown.count_matrices(split.positions),
        breakdowns=_break_down(split, levels),
        data=_data(split, levels),
    )


def _separate(rows: Mapping[str, Mapping]) -> dict:
    """Separates rows of a table into {"wrong": rows that have errors, "right": names of the other rows}."""
    return {
        "wrong": {name: row for name, row in rows.items() if row["errors"]},
        "right": [name for name, row in rows.items() if not row["errors"]],
    }


def _most_first(rows: Mapping[str, Mapping]) -> dict:
    return _separate(dict(sorted(rows.items(), key=lambda item: -item[1]["errors"])))


def _section(split: scored_split.ScoredSplit, values: Mapping, name: str) -> dict:
    scored = split.measures[name]
    groups, speakers = (
        _most_first({label: rates[name] for label, rates in values[table].items()}) if table in values else {}
        for table in ("by_group", "by_speaker")
    )
    return {
        "title": formats.format_name(name),
        "name": name,
        "groups": groups,
        "speakers": speakers,
        "lengths": breakdown.by_length(scored, split.are_speakers_people),
        # The confusions for the last measure are shown in the table of characters or tokens.
        "confusions": breakdown.confusions(scored, _NUM_CONFUSIONS) if name != split.measure else [],
    }


def _break_down(split: scored_split.ScoredSplit, levels: Mapping[str, float]) -> dict[str, dict]:
    """Returns the tables with further breakdowns, keyed by title."""
    unreachable = {
        row.utterance_id
        for row, positions in zip(split.scored, split.positions)
        if any(position.cause == attribution.UNREACHABLE for position in positions)
    }
    tables = {}
    if levels:
        tables["By loudness"] = breakdown.by_level(split.scored, levels, split.are_speakers_people)
    if unreachable:
        tables["By vocabulary"] = breakdown.by_membership(
            split.scored, unreachable, _WITH_UNREACHABLE, split.are_speakers_people
        )
    return {
        title: _separate({name: dataclasses.asdict(rate) for name, rate in rates.items()})
        for title, rates in tables.items()
    }


def _data(split: scored_split.ScoredSplit, levels: Mapping[str, float]) -> dict:
    worst = [row.utterance_id for row in breakdown.worst(split.scored, _NUM_EMBEDDED)]
    audio = clips.embed(split.recordings, worst)
    return {
        "separator": " " if split.measure == utterances.TOKEN_ERROR_RATE else "",
        "causes": _CAUSES,
        **list_rows(split, levels),
        "audio": audio,
        "files": list_files(split.recordings, set(audio)),
    }


def list_rows(split: scored_split.ScoredSplit, levels: Mapping[str, float]) -> dict[str, list]:
    """Returns the page's `utterances`, and the names of their `speakers`.

    An utterance is a list of its id, its speaker's index, its level in dBFS or None, its confidence or None,
    and its alignment (see align).
    """
    speakers = sorted({row.speaker for row in split.scored})
    indices = {name: index for index, name in enumerate(speakers)}
    confidences = {output["utterance_id"]: output.get("confidence") for output in split.outputs}
    rows = [
        [
            row.utterance_id,
            indices[row.speaker],
            _round(levels.get(row.utterance_id), 1),
            _round(confidences.get(row.utterance_id), 3),
            align(positions),
        ]
        for row, positions in zip(split.scored, split.positions)
    ]
    return {"speakers": speakers, "utterances": rows}


def align(positions: Sequence[attribution.AlignedPosition]) -> list:
    """Returns an alignment from left to right: runs of correct texts, and errors between them.

    A run is a list of texts or, to save space, a string if each text is one character. An error is
    {"r": reference or None, "h": hypothesis or None, "s": their two syllables, "c": index of the cause}.
    """
    aligned: list = []
    for is_right, group in itertools.groupby(positions, lambda position: position.cause is None):
        if is_right:
            texts = [position.reference.text for position in group]
            aligned.append("".join(texts) if all(len(text) == 1 for text in texts) else texts)
            continue
        for reference, hypothesis, cause in group:
            texts = [unit and unit.text for unit in (reference, hypothesis)]
            syllables = [unit and unit.syllable for unit in (reference, hypothesis)]
            aligned.append({"r": texts[0], "h": texts[1], "s": syllables, "c": _CAUSES.index(cause)})
    return aligned


def list_files(by_id: Mapping[str, recordings.Recording], left_out: Collection[str]) -> dict:
    """Returns URLs of recordings: {"root": their common prefix, "rest": rest of each URL by utterance id}."""
    urls = {
        name: recordings.url(recording.path, recording.start_seconds, recording.seconds)
        for name, recording in by_id.items()
        if name not in left_out
    }
    urls = {name: url for name, url in urls.items() if url}
    root = os.path.commonprefix(list(urls.values()))
    return {"root": root, "rest": {name: url.removeprefix(root) for name, url in urls.items()}}


def _round(value: Optional[float], digits: int) -> Optional[float]:
    return None if value is None else round(value, digits)


def template(name: str) -> jinja2.Template:
    """Returns a template from page/, which can include other files from page/."""
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
    """Returns JSON that is safe in a <script> element, because the text cannot end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return markupsafe.Markup(text.replace("<", "\\u003c"))
