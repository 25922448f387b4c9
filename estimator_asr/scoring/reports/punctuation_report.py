"""Report on a punctuation model: metrics.json, hypotheses.tsv, hypotheses.jsonl and report.html."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from estimator_asr.scoring import punctuation_scores
from estimator_asr.scoring.reports import formats, report, report_page
from tfrecord_builder.data import marks

_NUM_SHOWN = 50  # texts on the page: those with the most wrong marks
_KEY = punctuation_scores.COMMAS_STOPS_QUESTIONS


def write(
    texts: Sequence[punctuation_scores.MarkedText], facts: Mapping[str, object], output_dir: str
) -> dict:
    """Writes the report on `texts`, which are sorted by id; returns the contents of metrics.json.

    `facts` describe the model and the data. Intervals come from resampled texts (see error_rate.py).
    """
    scored = [(text, punctuation_scores.score(text.reference, text.hypothesis)) for text in texts]
    by_speaker = collections.defaultdict(list)
    for pair in scored:
        by_speaker[pair[0].speaker].append(pair)
    rates = _measure(scored)
    values = {**facts, "num_utterances": len(texts), **rates}
    values["by_speaker"] = {speaker: _measure(pairs) for speaker, pairs in by_speaker.items()}
    worst = sorted(scored, key=lambda pair: np.trace(pair[1].confusions) - pair[1].confusions.sum())
    rows = [
        {"utterance_id": name, "speaker": speaker, "scored": {}, report.MARKS: pair}
        for name, speaker, *pair in texts
    ]
    contents = {
        report.METRICS_FILE: json.dumps(values, indent=2, ensure_ascii=False) + "\n",
        report.REPORT_FILE: report_page.template("punctuation.html").render(
            facts=facts,
            rates=rates,
            speakers={name: measured[_KEY] for name, measured in values["by_speaker"].items()},
            marks=[mark or "none" for mark in marks.MARKS],
            confusions=sum(counts.confusions for _, counts in scored).tolist(),
            worst=[text for text, _ in worst[:_NUM_SHOWN]],
        ),
        report.OUTPUTS_FILE: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
        report.HYPOTHESES_FILE: "".join(
            "\t".join(row) + "\n"
            for row in [("utterance_id", "reference", "hypothesis"), *((t[0], t[2], t[3]) for t in texts)]
        ),
    }
    report.write_files(contents, output_dir)
    return values


def describe(values: Mapping) -> Iterator[str]:
    """Yields a line for each group of marks in `values`, the contents of metrics.json or of its `marks`."""
    for name in filter(values.__contains__, (_KEY, punctuation_scores.ALL, punctuation_scores.SENTENCE_ENDS)):
        precision, recall = (formats.format_percent(values[name][key]) for key in ("precision", "recall"))
        rate = {**values[name], "rate": values[name]["f1"]}
        label = formats.format_name(name)
        yield f"{label}: F1 {formats.format_rate(rate)}, precision {precision}, recall {recall}"
    if values.get("num_utterances_without_marks"):
        numbers = values["num_utterances"], values["num_utterances_without_marks"]
        yield "marks are measured on {} utterances; {} have no marks in the reference".format(*numbers)


def _measure(scored: Sequence[tuple]) -> dict:
    texts, counts = zip(*scored)
    rates = punctuation_scores.measure(counts, [text.reference for text in texts])
    return {name: dataclasses.asdict(rate) for name, rate in rates.items()}
