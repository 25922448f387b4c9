"""The three files an evaluation leaves: metrics.json, hypotheses.tsv and report.html.

All three are written under temporary names and then renamed, so that an older report in the output directory
stays whole until the new one is there; metrics.json comes last. The page is self-contained: style and picture
are inline.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence

import jinja2

from estimator_asr.scoring import breakdown, error_rate, utterances
from tfrecord_builder import errors, files

METRICS_FILE = "metrics.json"
HYPOTHESES_FILE = "hypotheses.tsv"
REPORT_FILE = "report.html"
_TEMPLATE_FILE = "report_template.html"
_NUM_WORST = 50
_NUM_CONFUSIONS = 40


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One split, recognised and scored.

    facts: what was evaluated (model, checkpoint, data, split), name to text or number.
    measures: a key of utterances.MEASURES to the utterances scored so; hypotheses.tsv shows the last one.
    group_pattern: see breakdown.by_group; None for no groups.
    are_speakers_people: see breakdown.overall.
    """

    facts: Mapping[str, object]
    measures: Mapping[str, Sequence[utterances.ScoredUtterance]]
    group_pattern: str | None = None
    are_speakers_people: bool = True


def metrics(evaluation: Evaluation) -> dict:
    """Compute what metrics.json holds: facts, the rate of each measure, the same by speaker and by group."""
    some = next(iter(evaluation.measures.values()))
    values = {**evaluation.facts, "num_utterances": len(some)}
    if evaluation.are_speakers_people:
        values.update(_count_speakers(some))
    for name, scored in evaluation.measures.items():
        values[name] = dataclasses.asdict(breakdown.overall(scored, evaluation.are_speakers_people))
    values["by_speaker"] = _table(evaluation, breakdown.by_speaker)
    if evaluation.group_pattern is not None:
        by_group = functools.partial(
            breakdown.by_group,
            pattern=evaluation.group_pattern,
            are_speakers_people=evaluation.are_speakers_people,
        )
        values["by_group"] = _table(evaluation, by_group)
    return values


def _count_speakers(scored: Sequence[utterances.ScoredUtterance]) -> dict[str, int]:
    known = [utterance.speaker for utterance in scored if utterance.is_speaker_known]
    return {
        "num_speakers": len(set(known)),
        "num_utterances_of_unknown_speakers": len(scored) - len(known),
    }


def _table(evaluation: Evaluation, divide: Callable[[Sequence], Mapping]) -> dict[str, dict[str, dict]]:
    """Give label -> measure -> error rate for what `divide` labels."""
    rows: dict[str, dict[str, dict]] = {}
    for name, scored in evaluation.measures.items():
        for label, rate in divide(scored).items():
            rows.setdefault(label, {})[name] = dataclasses.asdict(rate)
    return rows


def write(evaluation: Evaluation, output_dir: str) -> dict:
    """Write the three files into `output_dir`, made if need be, and return what metrics.json holds."""
    values = metrics(evaluation)
    contents = {
        METRICS_FILE: json.dumps(values, indent=2, ensure_ascii=False) + "\n",
        REPORT_FILE: render(evaluation, values),
        HYPOTHESES_FILE: hypotheses(evaluation),
    }
    os.makedirs(output_dir, exist_ok=True)
    with contextlib.ExitStack() as stack:  # which renames the last first, when all are written
        for name, text in contents.items():
            temporary = stack.enter_context(files.writing(os.path.join(output_dir, name)))
            pathlib.Path(temporary).write_text(text, encoding="utf-8")
    return values


def check_output_dir(output_dir: str) -> None:
    """Tries to write into `output_dir` and leaves nothing there: before the work, not after it.

    Raises:
      errors.UserError: the three files cannot be written.
    """
    path = pathlib.Path(output_dir)
    made = [place for place in (path, *path.parents) if not os.path.lexists(place)]  # the deepest first
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"0")
    except OSError as error:
        raise errors.UserError(
            f"{output_dir}: cannot be written ({error.strerror}), expected a directory for the report; "
            "give another --output_dir"
        ) from error
    finally:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()
    for name in (METRICS_FILE, REPORT_FILE, HYPOTHESES_FILE):
        if (path / name).is_dir():
            raise errors.UserError(
                f"{path / name}: is a directory, expected a file; remove it, or give another --output_dir"
            )


def hypotheses(evaluation: Evaluation) -> str:
    """List `utterance_id<TAB>reference<TAB>hypothesis` under a header line, in the order of evaluation."""
    lines = ["utterance_id\treference\thypothesis"]
    for scored in list(evaluation.measures.values())[-1]:
        fields = scored.utterance_id, scored.reference, scored.hypothesis
        lines.append("\t".join(" ".join(field.split()) for field in fields))
    return "\n".join(lines) + "\n"


def render(evaluation: Evaluation, values: Mapping) -> str:
    """Render report.html.

    Args:
      values: what `metrics` made of the evaluation.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=format_percent, rate=format_rate, speakers=describe_speakers)
    template = environment.from_string(pathlib.Path(__file__).with_name(_TEMPLATE_FILE).read_text("utf-8"))
    sections = [_section(name, evaluation) for name in evaluation.measures]
    return template.render(facts=evaluation.facts, metrics=values, sections=sections)


def _section(name: str, evaluation: Evaluation) -> dict:
    scored = evaluation.measures[name]
    return {
        "name": name,
        "title": format_name(name),
        "lengths": breakdown.by_length(scored, evaluation.are_speakers_people),
        "worst": breakdown.worst(scored, _NUM_WORST),
        "confusions": breakdown.confusions(scored, _NUM_CONFUSIONS),
    }


def format_name(measure: str) -> str:
    return measure.replace("_", " ")


def describe_speakers(values: Mapping) -> str:
    """Writes a sentence about the speakers of metrics.json."""
    unknown = values["num_utterances_of_unknown_speakers"]
    if not unknown:
        return str(values["num_speakers"])
    return (
        f"speaker unknown: {unknown} of {values['num_utterances']} utterances, each counted as a speaker of "
        "its own; if a few speakers said them all, the intervals are too narrow"
    )


def format_percent(share: float | None) -> str:
    return "no reference" if share is None else f"{100 * share:.2f} %"


def format_rate(rate: Mapping) -> str:
    """Write one error rate of metrics.json for people: `1.25 % (95 % interval 0.80 to 1.90 %)`."""
    text = format_percent(rate["rate"])
    if rate["confidence_interval"] is not None:
        low, high = rate["confidence_interval"]
        text += f" ({100 * error_rate.CONFIDENCE:.0f} % interval {100 * low:.2f} to {100 * high:.2f} %)"
    return text
