"""Evaluation report: metrics.json, hypotheses.tsv, hypotheses.jsonl and a self-contained report.html.

All three are written under temporary names and then renamed, so that an older report stays complete until
the new one is; metrics.json comes last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

import jinja2

from estimator_asr.scoring import biasing, breakdown, error_rate, nist_files, syllable_parts, utterances
from tfrecord_builder import errors, files

METRICS_FILE = "metrics.json"
HYPOTHESES_FILE = "hypotheses.tsv"
OUTPUTS_FILE = "hypotheses.jsonl"
REPORT_FILE = "report.html"
_TEMPLATE_FILE = "report_template.html"
_NUM_WORST = 50
_PARTS = (*syllable_parts.PARTS, syllable_parts.SENTENCE_ERROR_RATE)
_NUM_CONFUSIONS = 40


@dataclasses.dataclass(frozen=True)
class ScoredSplit:
    """A split, recognised and scored."""

    facts: Mapping[str, object]  # what was evaluated: model, checkpoint, data, split
    # By the keys of utterances.MEASURES; hypotheses.tsv shows the last one.
    measures: Mapping[str, Sequence[utterances.ScoredUtterance]]
    group_pattern: Optional[str] = None  # as for breakdown.by_group; None for no groups
    are_speakers_people: bool = True  # as for breakdown.overall
    outputs: Sequence[Mapping] = ()  # of each utterance, for hypotheses.jsonl
    hotwords: Sequence[str] = ()  # as for biasing.measure


def metrics(split: ScoredSplit) -> dict:
    """Returns the content of metrics.json: facts, and error rates overall, by speaker and by group."""
    some = next(iter(split.measures.values()))
    values = {**split.facts, "num_utterances": len(some)}
    if split.are_speakers_people:
        known = [utterance.speaker for utterance in some if utterance.is_speaker_known]
        values["num_speakers"] = len(set(known))
        values["num_utterances_of_unknown_speakers"] = len(some) - len(known)
    for name, scored in split.measures.items():
        values[name] = dataclasses.asdict(breakdown.overall(scored, split.are_speakers_people))
    for name, scored in syllable_parts.rescore(split.measures):
        values[name] = dataclasses.asdict(breakdown.overall(scored, split.are_speakers_people))
    if split.hotwords:
        last = list(split.measures.items())[-1]
        rates = biasing.measure(split.hotwords, *last, split.are_speakers_people)
        values.update({name: dataclasses.asdict(rate) for name, rate in rates.items()})
    values["by_speaker"] = _table(split, breakdown.by_speaker)
    if split.group_pattern is not None:
        options = {"pattern": split.group_pattern, "are_speakers_people": split.are_speakers_people}
        values["by_group"] = _table(split, functools.partial(breakdown.by_group, **options))
    return values


def _table(split, break_down):
    """Returns label -> measure -> error rate."""
    rows = {}
    for name, scored in split.measures.items():
        for label, rate in break_down(scored).items():
            rows.setdefault(label, {})[name] = dataclasses.asdict(rate)
    return rows


def write(split: ScoredSplit, output_dir: str) -> dict:
    """Writes the report into `output_dir`, which is created; returns the content of metrics.json."""
    values = metrics(split)
    contents = {
        METRICS_FILE: json.dumps(values, indent=2, ensure_ascii=False) + "\n",
        REPORT_FILE: _render(split, values),
        OUTPUTS_FILE: "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in _list_outputs(split)),
        HYPOTHESES_FILE: hypotheses(split),
        **nist_files.contents(*list(split.measures.items())[-1], split.outputs),
    }
    os.makedirs(output_dir, exist_ok=True)
    with contextlib.ExitStack() as stack:  # which renames the last one first, when all are written
        for name, text in contents.items():
            temporary = stack.enter_context(files.writing(os.path.join(output_dir, name)))
            pathlib.Path(temporary).write_text(text, encoding="utf-8")
    for name in nist_files.FILES - contents.keys():
        pathlib.Path(output_dir, name).unlink(missing_ok=True)  # of an older report
    return values


def _list_outputs(split: ScoredSplit) -> Iterator[dict]:
    """Yields the outputs of each utterance, with its speaker and [reference, hypothesis] by measure."""
    outputs = {each["utterance_id"]: each for each in split.outputs}
    for rows in zip(*split.measures.values()):
        first = rows[0]
        scored = {name: (row.reference, row.hypothesis) for name, row in zip(split.measures, rows)}
        about = {"utterance_id": first.utterance_id, "speaker": first.speaker, "scored": scored}
        yield {**about, **outputs.get(first.utterance_id, {})}


def create_output_dir(output_dir: str) -> None:
    """Creates `output_dir`; raises errors.UserError if nothing can be written there.

    Called before a long evaluation, so that it does not fail at its end.
    """
    try:
        os.makedirs(output_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=output_dir) as file:
            file.write(b"0")
    except OSError as error:
        raise errors.UserError(
            f"{output_dir}: cannot be written ({error.strerror}), expected a directory for the report; "
            "give another --output_dir"
        ) from error


def hypotheses(split: ScoredSplit) -> str:
    """Returns hypotheses.tsv: a header line, and a line per utterance in the order of evaluation."""
    lines = ["utterance_id\treference\thypothesis"]
    for scored in list(split.measures.values())[-1]:
        fields = scored.utterance_id, scored.reference, scored.hypothesis
        lines.append("\t".join(" ".join(field.split()) for field in fields))
    return "\n".join(lines) + "\n"


def _render(split, values):
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=_format_percent, rate=format_rate, speakers=describe_speakers)
    template = environment.from_string(pathlib.Path(__file__).with_name(_TEMPLATE_FILE).read_text("utf-8"))
    sections = [
        {
            "name": name,
            "title": format_name(name),
            "lengths": breakdown.by_length(scored, split.are_speakers_people),
            "worst": breakdown.worst(scored, _NUM_WORST),
            "confusions": breakdown.confusions(scored, _NUM_CONFUSIONS),
        }
        for name, scored in split.measures.items()
    ]
    parts = {format_name(name): values[name] for name in _PARTS if name in values}
    return template.render(facts=split.facts, metrics=values, sections=sections, parts=parts)


def format_name(measure: str) -> str:
    """Returns the name of a measure for people."""
    return measure.replace("_", " ")


def describe_speakers(values: Mapping) -> str:
    """Returns the number of speakers in metrics.json, or a sentence about unknown ones."""
    unknown = values["num_utterances_of_unknown_speakers"]
    if not unknown:
        return str(values["num_speakers"])
    return (
        f"speaker unknown: {unknown} of {values['num_utterances']} utterances, each counted as a speaker of "
        "its own; if a few speakers spoke them all, the intervals are too narrow"
    )


def format_rate(rate: Mapping) -> str:
    """Returns an error rate of metrics.json for people: `1.25 % (95 % interval 0.80 to 1.90 %)`."""
    text = _format_percent(rate["rate"])
    if rate["confidence_interval"] is not None:
        low, high = rate["confidence_interval"]
        text += f" ({100 * error_rate.CONFIDENCE:.0f} % interval {100 * low:.2f} to {100 * high:.2f} %)"
    return text


def _format_percent(fraction):
    return "no reference" if fraction is None else f"{100 * fraction:.2f} %"
