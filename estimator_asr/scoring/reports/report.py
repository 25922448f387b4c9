"""Evaluation report: metrics.json, hypotheses.tsv, hypotheses.jsonl and a self-contained report.html.

Files are written under temporary names and then renamed, so that an older report remains complete until the
new one is complete; metrics.json is renamed last. If the outputs have times, there are two more files, for
sclite from NIST's SCTK 2.4 (doc/infmts.htm). In these files, each utterance is a separate recording that ends
with the utterance's last token:

    reference.stm    u1 1 s1 0.000 1.240 <O> 你 好     recording, channel, speaker, start, end, label, tokens
    hypothesis.ctm   u1 1 0.480 0.040 你 0.952         recording, channel, start, duration, token, confidence
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from estimator_asr.scoring import punctuation_scores, utterances
from estimator_asr.scoring.reports import report_page, scored_split
from tfrecord_builder import errors
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

METRICS_FILE = "metrics.json"
HYPOTHESES_FILE = "hypotheses.tsv"
OUTPUTS_FILE = "hypotheses.jsonl"
REPORT_FILE = "report.html"
STM_FILE = "reference.stm"
CTM_FILE = "hypothesis.ctm"
MARKS = "marks"  # key of texts with marks in hypotheses.jsonl
_CHANNEL = "1"
_LABEL = "<O>"  # prevents sclite from reading a first token such as <unk> as the label
_SHORTEST = 0.001  # length of a recording without tokens, in seconds; sclite does not accept 0
_NO_SPEAKER = "unknown"
# Replaces characters that mark optional words, alternatives and the empty word in STM and CTM files.
_FULL_WIDTH = str.maketrans("(){}/@", "（）｛｝／＠")


def write(split: scored_split.ScoredSplit, output_dir: str) -> dict:
    """Writes the report to `output_dir`, which is created if needed; returns the contents of metrics.json."""
    values = scored_split.measure(split)
    contents = {
        METRICS_FILE: json.dumps(values, indent=2, ensure_ascii=False) + "\n",
        REPORT_FILE: report_page.render(split, values),
        OUTPUTS_FILE: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _list_outputs(split)),
        HYPOTHESES_FILE: hypotheses(split),
        **list_nist_files(split),
    }
    os.makedirs(output_dir, exist_ok=True)
    write_files(contents, output_dir)
    for name in {STM_FILE, CTM_FILE} - contents.keys():
        pathlib.Path(output_dir, name).unlink(missing_ok=True)  # left by an older report
    return values


def write_files(contents: Mapping[str, str], output_dir: str) -> None:
    """Writes texts, keyed by file name; the files are renamed together at the end, the first file last."""
    with contextlib.ExitStack() as stack:
        for name, text in contents.items():
            temporary = stack.enter_context(files.writing(os.path.join(output_dir, name)))
            pathlib.Path(temporary).write_text(text, encoding="utf-8", errors="replace")


def read(path: str) -> dict[str, list]:
    """Reads a report's scored utterances, keyed by measure and sorted by id.

    If texts have marks, the key MARKS has a list of punctuation_scores.MarkedText.
    Raises errors.UserError if hypotheses.jsonl is missing, damaged or from an earlier version.
    """
    measures: dict[str, list] = {}
    try:
        lines = files.read_text(os.path.join(path, OUTPUTS_FILE)).split("\n")
        for row in map(config_json.parse, filter(None, lines)):
            for measure, (reference, hypothesis) in row["scored"].items():
                scored = utterances.score(measure, row["utterance_id"], row["speaker"], reference, hypothesis)
                measures.setdefault(measure, []).append(scored)
            if MARKS in row:
                text = punctuation_scores.MarkedText(row["utterance_id"], row["speaker"], *row[MARKS])
                measures.setdefault(MARKS, []).append(text)
        if not measures:
            raise ValueError("the file contains no utterances")
        return measures
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.UserError(
            f"{path}: {OUTPUTS_FILE} cannot be read ({type(error).__name__}: {error}); evaluate again with "
            "this version of the program"
        ) from error


def _list_outputs(split: scored_split.ScoredSplit) -> Iterator[dict]:
    """Yields each utterance's outputs, with its speaker and, for each measure, (reference, hypothesis).

    MARKS, if present, holds the reference and the hypothesis with marks.
    """
    outputs = {output["utterance_id"]: output for output in split.outputs}
    for rows in zip(*split.measures.values()):
        first = rows[0]
        scored = {name: (row.reference, row.hypothesis) for name, row in zip(split.measures, rows)}
        about = {"utterance_id": first.utterance_id, "speaker": first.speaker, "scored": scored}
        if first.utterance_id in split.marked_texts:
            about[MARKS] = split.marked_texts[first.utterance_id]
        yield {**about, **outputs.get(first.utterance_id, {})}


def create_output_dir(output_dir: str) -> None:
    """Creates `output_dir`; raises errors.UserError if no file can be written there."""
    try:
        os.makedirs(output_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=output_dir) as file:
            file.write(b"0")
    except OSError as error:
        raise errors.UserError(
            f"{output_dir}: the report cannot be written ({error.strerror}); pass another --output_dir"
        ) from error


def hypotheses(split: scored_split.ScoredSplit) -> str:
    """Returns the text of hypotheses.tsv: a header, and one line per utterance in the order of `split`.

    If texts have marks, two more columns contain the reference and the hypothesis with marks.
    """
    columns, missing = (("written", "punctuated"), ("", "")) if split.marked else ((), ())
    rows = [("utterance_id", "reference", "hypothesis", *columns)]
    for scored in split.scored:
        texts = split.marked_texts.get(scored.utterance_id, missing)
        rows.append((scored.utterance_id, scored.reference, scored.hypothesis, *texts))
    return "".join("\t".join(" ".join(field.split()) for field in row) + "\n" for row in rows)


def list_nist_files(split: scored_split.ScoredSplit) -> dict[str, str]:
    """Returns the texts of reference.stm and hypothesis.ctm, keyed by file name; none if no output has times.

    An output's `characters` are dicts with `character`, `start` and `end` (in seconds), and `confidence`.
    """
    timed = [output for output in split.outputs if "characters" in output]
    characters = {output["utterance_id"]: output["characters"] for output in timed}
    if not split.scored or any(row.utterance_id not in characters for row in split.scored):
        return {}
    segments, words = "", ""
    for row in split.scored:
        items = characters[row.utterance_id]
        name, speaker = (re.sub(r"\s", "_", text) or _NO_SPEAKER for text in (row.utterance_id, row.speaker))
        end = max([_SHORTEST, *(item["end"] for item in items)])
        tokens = "".join(f" {token}" for token in row.reference_tokens).translate(_FULL_WIDTH)
        segments += f"{name} {_CHANNEL} {speaker} 0.000 {end:.3f} {_LABEL}{tokens}\n"
        words += "".join(f"{name} {_CHANNEL} {word}\n" for word in _list_words(split.measure, items))
    return {STM_FILE: segments, CTM_FILE: words}


def _list_words(measure: str, items: Sequence[Mapping]) -> Iterator[str]:
    """Yields start, duration, token and confidence; an item's tokens share the item's time equally."""
    for item in items:
        tokens = utterances.MEASURES[measure](item["character"])
        duration = (item["end"] - item["start"]) / max(1, len(tokens))
        for index, token in enumerate(tokens):
            start = item["start"] + index * duration
            yield f"{start:.3f} {duration:.3f} {token.translate(_FULL_WIDTH)} {item['confidence']:.3f}"
