"""The tables that the demo prints at the end: transcripts, error rates, marks, durations, next commands."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tqdm.utils

from estimator_asr.scoring import edit_distance, punctuation_scores
from estimator_asr.scoring.reports import formats, punctuation_report, report
from tfrecord_builder.data import marks

_SURE = 0.8  # characters with a lower confidence are put in brackets


def transcripts(recordings: Sequence[Mapping[str, str]], output: pathlib.Path) -> list[str]:
    """Tabulates each recording's reference, hypothesis (uncertain characters in brackets) and errors.

    `recordings` are rows from the manifest, in the same order as the lines of `output`, a file that
    estimator_asr.transcribe --format=json has written.
    """
    results = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    rows = [("recording", "reference", "hypothesis", "hanzi wrong", "marks wrong")]
    rows += [(row["id"], *_compare(row["text"], result)) for row, result in zip(recordings, results)]
    return [*align(rows), f"  [] marks characters with a confidence below {100 * _SURE:.0f} %"]


def _compare(reference: str, result: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the reference, the hypothesis, and the numbers of wrong hanzi and of wrong marks."""
    texts = reference, result["punctuated"]
    edits = edit_distance.count_edits(*(marks.split(text)[0] for text in texts))
    confusions = punctuation_scores.score(*texts).confusions
    hypothesis = "".join(
        (item["character"] if item["confidence"] >= _SURE else f"[{item['character']}]") + item["mark"]
        for item in result["characters"]
    )
    marks_wrong = f"{confusions.sum() - confusions.trace()} of {confusions[1:].sum()}"
    return reference, hypothesis, f"{edits.errors} of {edits.reference_length}", marks_wrong


def error_rates(reports: Mapping[str, pathlib.Path]) -> list[str]:
    """Tabulates error rates with confidence intervals; `reports` maps names to report directories."""
    rows = []
    for name, directory in reports.items():
        metrics = _read_metrics(directory)
        for measure in ("token_error_rate", "character_error_rate"):
            if measure in metrics:
                rows.append((name, formats.format_name(measure), formats.format_rate(metrics[measure])))
    return ["Error rates on the test split, whose sentences and voices do not occur in train", *align(rows)]


def mark_rates(directory: pathlib.Path) -> list[str]:
    """Tabulates F1, precision and recall of the marks from the report on an export."""
    lines = punctuation_report.describe(_read_metrics(directory)["marks"])
    return ["Punctuation marks on the test split", *align([line.split(": ") for line in lines])]


def _read_metrics(directory: pathlib.Path) -> dict:
    return json.loads((directory / report.METRICS_FILE).read_text(encoding="utf-8"))


def durations(seconds: Mapping[str, float]) -> list[str]:
    """Tabulates the seconds that each stage took, and the total; `seconds` is keyed by stage title."""
    rows = [(title, f"{value:.0f}") for title, value in seconds.items()]
    return ["Seconds", *align([*rows, ("total", f"{sum(seconds.values()):.0f}")])]


def next_commands(directory: pathlib.Path) -> list[str]:
    """Tabulates commands to try once the demo has finished."""
    python, export = os.path.relpath(sys.executable), directory / "export"
    rows = [
        ("training curves", f"{python} -m tensorboard.main --logdir={directory}"),
        ("all errors", f"open {directory / 'report' / 'cascade' / report.REPORT_FILE} in a browser"),
        ("your own WAV", f"{python} -m estimator_asr.transcribe --saved_model={export} YOUR.wav"),
        ("a page to speak into", f"{python} -m estimator_asr.serve --saved_model={export}"),
        ("your own corpus", "BUILD.md, with the commands above and flags/manifest/"),
    ]
    return ["What to try next", *align(rows)]


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Pads each column to the width of its widest cell; a hanzi is two terminal columns wide."""
    width = tqdm.utils.disp_len
    widths = [max(map(width, column)) for column in zip(*rows)]
    padded = [[cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths)] for row in rows]
    return ["  " + "  ".join(row).rstrip() for row in padded]
