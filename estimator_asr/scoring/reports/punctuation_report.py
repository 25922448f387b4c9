"""Report on a punctuation model: metrics.json, hypotheses.tsv, hypotheses.jsonl and report.html."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from estimator_asr.scoring import punctuation_scores
from estimator_asr.scoring.reports import formats, report, report_page
from tfrecord_builder.data import marks
from tfrecord_builder.storage import files

_NUM_SHOWN = 50  # texts on the page: those with the most wrong marks
_KEY = punctuation_scores.COMMAS_STOPS_QUESTIONS


def write(
    texts: Sequence[punctuation_scores.MarkedText], facts: Mapping[str, object], output_dir: str
) -> dict:
    """Writes the report on texts in the order of their ids; returns the contents of metrics.json.

    `facts` describe the model and the data. Intervals come from resampled texts (see error_rate.py).
    """
    counts = [punctuation_scores.score(text.reference, text.hypothesis) for text in texts]
    confusions = sum(count.confusions for count in counts)
    values = {**facts, "num_utterances": len(texts), **_measure(texts, counts)}
    values["by_speaker"] = {speaker: _measure(*rows) for speaker, rows in _group(texts, counts).items()}
    rows = [
        {"utterance_id": name, "speaker": speaker, "scored": {}, report.MARKS: pair}
        for name, speaker, *pair in texts
    ]
    contents = {
        report.METRICS_FILE: json.dumps(values, indent=2, ensure_ascii=False) + "\n",
        report.REPORT_FILE: report_page.template("punctuation.html").render(
            facts=facts,
            rates={name: rate for name, rate in values.items() if _is_rate(rate)},
            speakers={name: rates[_KEY] for name, rates in values["by_speaker"].items()},
            marks=[mark or "none" for mark in marks.MARKS],
            confusions=confusions.tolist(),
            worst=[texts[index] for index in _sort_by_errors(counts)[:_NUM_SHOWN]],
        ),
        report.OUTPUTS_FILE: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
        report.HYPOTHESES_FILE: "".join(
            "\t".join(row) + "\n"
            for row in [("utterance_id", "reference", "hypothesis"), *((t[0], t[2], t[3]) for t in texts)]
        ),
    }
    with contextlib.ExitStack() as stack:  # the files are renamed on exit, the last one first
        for name, content in contents.items():
            temporary = stack.enter_context(files.writing(os.path.join(output_dir, name)))
            pathlib.Path(temporary).write_text(content, encoding="utf-8", errors="replace")
    return values


def describe(values: Mapping) -> Iterator[str]:
    """Yields a line for each kind of mark; none if `values`, as in metrics.json, have no marks."""
    for name in filter(values.__contains__, (_KEY, punctuation_scores.ALL, punctuation_scores.SENTENCE_ENDS)):
        precision, recall = (formats.format_percent(values[name][key]) for key in ("precision", "recall"))
        rate = {**values[name], "rate": values[name]["f1"]}
        label = formats.format_name(name)
        yield f"{label}: F1 {formats.format_rate(rate)}, precision {precision}, recall {recall}"
    if values.get("num_utterances_without_marks"):
        numbers = values["num_utterances"], values["num_utterances_without_marks"]
        yield "marks are measured on {} utterances; {} have no marks in the reference".format(*numbers)


def _measure(
    texts: Sequence[punctuation_scores.MarkedText], counts: Sequence[punctuation_scores.MarkCounts]
) -> dict:
    rates = punctuation_scores.measure(counts, [text.reference for text in texts])
    return {name: dataclasses.asdict(rate) for name, rate in rates.items()}


def _group(texts, counts) -> dict[str, tuple[list, list]]:
    groups: dict[str, tuple[list, list]] = {}
    for text, count in zip(texts, counts):
        for rows, row in zip(groups.setdefault(text.speaker, ([], [])), (text, count)):
            rows.append(row)
    return groups


def _is_rate(value: object) -> bool:
    return isinstance(value, dict) and "f1" in value


def _sort_by_errors(counts: Sequence[punctuation_scores.MarkCounts]) -> list[int]:
    errors = [int(count.confusions.sum() - np.trace(count.confusions)) for count in counts]
    return sorted(range(len(counts)), key=lambda index: -errors[index])
