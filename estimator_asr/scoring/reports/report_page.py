"""report.html: one file without any request, whose tables are sorted and filtered by page/report.js."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Optional

import jinja2
import markupsafe

from estimator_asr.scoring import attribution, biasing, breakdown, error_rate, utterances
from estimator_asr.scoring.reports import clips, formats, scored_split
from tfrecord_builder.data import recordings

_NUM_EMBEDDED = 50  # recordings, those of the utterances with the most errors
_NUM_CONFUSIONS = 40
_PARTS = (*breakdown.PARTS, breakdown.SENTENCE_ERROR_RATE, biasing.BIASED, biasing.UNBIASED)
_CAUSES = {cause: index for index, cause in enumerate(attribution.CAUSES)}
_WITH_UNREACHABLE = ("with a character or syllable outside of the vocabulary", "without")


def render(split: scored_split.ScoredSplit, values: Mapping) -> str:
    """Returns the page; `values` is the content of metrics.json."""
    is_silent = not any(row.hypothesis_tokens for row in split.scored)
    levels = clips.measure_levels(split.recordings)
    return template("report.html").render(
        facts=split.facts,
        command=split.command,
        metrics=values,
        advice=list(formats.list_advice(values, is_silent)),
        sections=[_section(split, name) for name in split.measures],
        parts={formats.format_name(name): values[name] for name in _PARTS if name in values},
        causes=attribution.CAUSES,
        floors=scored_split.FLOORS,
        matrices=breakdown.count_matrices(split.positions),
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
        **list_rows(split.scored, split.positions, split.outputs, levels),
        "audio": audio,
        "files": list_files(split.recordings, set(audio)),
    }


def list_rows(
    scored: Sequence[utterances.ScoredUtterance],
    positions: Sequence[Sequence[attribution.Position]],
    outputs: Sequence[Mapping],
    levels: Mapping[str, float],
) -> dict[str, Any]:
    """Returns `speakers` and `utterances`.

    Returns:
        speakers: names. utterances: a list for each, of the id, the index of the speaker, the level in dBFS
        or None, the confidence or None, and the alignment of `align`.
    """
    speakers = {name: index for index, name in enumerate(sorted({row.speaker for row in scored}))}
    confidences = {each["utterance_id"]: each.get("confidence") for each in outputs}
    rows = [
        [
            row.utterance_id,
            speakers[row.speaker],
            _round(levels.get(row.utterance_id), 1),
            _round(confidences.get(row.utterance_id), 3),
            align(found),
        ]
        for row, found in zip(scored, positions)
    ]
    return {"speakers": list(speakers), "utterances": rows}


def align(positions: Sequence[attribution.Position]) -> list:
    """Returns an alignment from left to right: right texts in lists, and each error.

    An error is {"r": reference or None, "h": hypothesis or None, "s": their two syllables, "c": index of the
    cause}.
    """
    found: list = []
    for each in positions:
        if each.cause is not None:
            texts = [unit and unit.text for unit in (each.reference, each.hypothesis)]
            spoken = [unit and unit.syllable for unit in (each.reference, each.hypothesis)]
            found.append({"r": texts[0], "h": texts[1], "s": spoken, "c": _CAUSES[each.cause]})
        elif found and isinstance(found[-1], list):
            found[-1].append(each.reference.text)
        else:
            found.append([each.reference.text])
    return [_join(each) if isinstance(each, list) else each for each in found]


def list_files(found: Mapping[str, recordings.Recording], left_out: Collection[str]) -> dict:
    """Returns the URLs of the files of recordings, {"root": prefix of all, "rest": rest by utterance id}."""
    urls = {
        name: recordings.url(each.path, each.start_seconds, each.seconds)
        for name, each in found.items()
        if name not in left_out
    }
    urls = {name: url for name, url in urls.items() if url}
    root = os.path.commonprefix(list(urls.values()))
    return {"root": root, "rest": {name: url[len(root) :] for name, url in urls.items()}}


def _join(texts: list[str]) -> Any:
    """Returns one string of single characters, which takes less room, or the list."""
    return "".join(texts) if all(len(text) == 1 for text in texts) else texts


def _round(value: Optional[float], digits: int) -> Optional[float]:
    return None if value is None else round(value, digits)


def template(name: str) -> jinja2.Template:
    """Returns a template of page/, which can include the files beside it."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).with_name("page")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=formats.format_percent,
        rate=formats.format_rate,
        speakers=formats.describe_speakers,
        name=formats.format_name,
        json=_to_json,
    )
    return environment


def _to_json(value: object) -> markupsafe.Markup:
    """Returns JSON that stands in a <script>: nothing in it ends the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return markupsafe.Markup(text.replace("<", "\\u003c"))
