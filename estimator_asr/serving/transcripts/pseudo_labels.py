"""Pseudo-labels: decodes with one or two teacher models, and decides which results can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")  # a backend that needs no display

import matplotlib.pyplot as plt

from estimator_asr.scoring import edit_distance
from estimator_asr.serving.transcripts import captions
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary

GREEDY, SECOND = "greedy_pinyin", "second_pinyin"
OUTPUTS = {"transcript", "pinyin", GREEDY, "confidence"}  # outputs that a teacher must have
_CONFIDENCES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99, 0.995, 0.999)


class Teachers(NamedTuple):
    """One or two teacher models (recogniser.Recogniser), which transcribe the same audio."""

    models: Sequence

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, list]:
        """Returns the first model's outputs, and the last model's pinyin as second_pinyin."""
        outputs = [model.run(batch) for model in self.models]
        return {**outputs[0], SECOND: outputs[-1]["pinyin"]}


def find_teachers(versions: Sequence) -> Teachers:
    """Returns the models in loaded exports; raises UserError if an export is from an earlier release."""
    teachers = Teachers([version.find("waveform") for version in versions])
    for version, model in zip(versions, teachers.models):
        if GREEDY not in model.outputs:
            problem = f"has no output {GREEDY}, so it was exported by an earlier release"
            raise errors.UserError(f"{version.version_dir} {problem}; export the model again")
    return teachers


def keep(_, transcript: captions.Transcript) -> dict:
    """Returns the values that recording_units stores for a recording."""
    return {"rows": list_rows(transcript.segments)}


def list_rows(segments: Sequence[captions.TranscriptSegment]) -> list[dict]:
    """Returns one row per segment, with times in seconds, texts, confidence and disagreement.

    If there are no segments, the only row has empty texts. Disagreement is the highest token error rate among
    the other decodings, with `pinyin` as the reference.
    """
    rows = []
    for start, end, outputs in segments or [captions.TranscriptSegment(0.0, 0.0, captions.join([]))]:
        pinyin, *others = (outputs[name].split() for name in ("pinyin", GREEDY, SECOND) if name in outputs)
        num_errors = max(edit_distance.count_edits(pinyin, other).errors for other in others)
        numbers = {"start": round(start, 3), "seconds": round(end - start, 3)}
        numbers["disagreement"] = num_errors / max(len(pinyin), 1)
        # If there is no language model, the transcript is just the pinyin.
        texts = {"text": outputs["transcript"] if outputs["transcript"] != outputs["pinyin"] else ""}
        rows.append({**numbers, **texts, **{name: outputs[name] for name in ("pinyin", "confidence")}})
    return rows


def find_problem(row: Mapping, max_disagreement: float, min_confidence: float) -> str:
    """Returns the reason why a row from `list_rows` cannot be trusted, or "" if the row can be trusted."""
    if not row["pinyin"]:
        return "nothing was recognised"
    if vocabulary.UNKNOWN in row["pinyin"] + row["text"]:
        return f"contains {vocabulary.UNKNOWN}"
    if row["disagreement"] > max_disagreement:
        return "decodings disagree"
    return "confidence is too low" if row["confidence"] < min_confidence else ""


def list_candidates(
    outputs: Sequence[Mapping], edits: Sequence[edit_distance.Edits], max_disagreement: float
) -> list[tuple[float, float, float]]:
    """Returns minimum confidences, each with the fraction of utterances that it keeps and their error rate.

    `outputs` are the teachers' outputs for labelled utterances; `edits` compare the pinyin with the labels.
    Minimum confidences that keep no utterances are left out.
    """
    rows = list_rows([captions.TranscriptSegment(0.0, 0.0, result) for result in outputs])
    candidates = []
    for minimum in _CONFIDENCES:
        trusted = [edit for row, edit in zip(rows, edits) if not find_problem(row, max_disagreement, minimum)]
        length = sum(edit.reference_length for edit in trusted)
        if length:
            error_rate = sum(edit.errors for edit in trusted) / length
            candidates.append((minimum, len(trusted) / len(rows), error_rate))
    return candidates


def draw(candidates: Sequence[tuple[float, float, float]], max_error_rate: float, path: str) -> None:
    """Plots the result of `list_candidates` as a PNG file, with a line at the maximum error rate."""
    confidences, *columns = zip(*candidates)
    figure, axes = plt.subplots(2, 1, figsize=(6, 4.2), sharex=True, layout="constrained")
    for axis, values, label in zip(axes, columns, ("utterances kept, %", "token error rate, %")):
        axis.plot([100 * value for value in values], "o-")
        axis.set(ylabel=label, ylim=(0, None))
    axes[1].axhline(100 * max_error_rate, color="#999999", linewidth=1)
    axes[1].set_xticks(range(len(confidences)), [f"{value:g}" for value in confidences], rotation=60)
    axes[1].set_xlabel("minimum confidence")
    figure.savefig(path, dpi=120, format="png", metadata={"Software": None})
    plt.close(figure)
