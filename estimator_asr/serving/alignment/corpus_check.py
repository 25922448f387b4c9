"""Scores the utterances of a corpus, and lists the utterances whose transcripts are suspicious."""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_asr.exporting.saved_model import export_info
from estimator_asr.scoring.reports import clips, report_page
from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import frame_scores, suspects, utterances
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.data import recordings as shard_recordings

_SCORE_COLUMNS = ("id", "audio", "start", "duration", "score", "text", "heard", "tokens")
_SUSPECT_COLUMNS = ("id", "audio", "start", "duration", "score", "fault", "text", "heard", "words")
_MIN_AGREEMENT = 0.1  # mean over the utterances, below which the export or all transcripts must be wrong
_NUM_PLAYERS = 100


def run(
    inputs: Sequence[recordings.RecordingFile],
    version_dir: str,
    output_dir: str,
    job_dir: str,
    min_score: float,
    runner: str,
    num_workers: Optional[int],
) -> int:
    """Writes scores.tsv, suspects.tsv and suspects.html; returns the number of unusable recordings.

    For `job_dir`, see recording_units.reserve; for `runner` and `num_workers`, recording_units.recognise.
    Raises errors.UserError, before these files are written, if the transcripts do not match the speech.
    """
    info = export_info.load(version_dir)
    directory = os.path.join(output_dir, job_dir, f"{info.sha256[:12]}-spoken-utterances")
    exports, keep = ((version_dir, info.sha256),), functools.partial(suspects.check, info.token_type)
    writer = utterances.UtteranceWriter(directory, exports, frame_scores.FrameScorer, keep)
    with recording_units.reserve(output_dir, job_dir, "align"):
        folders = {os.path.dirname(recording.path) for recording in inputs}
        shared = *sorted(folders), os.path.abspath(output_dir), os.path.abspath(version_dir)
        results = recording_units.recognise(inputs, writer, "align", runner, num_workers, shared)
        pairs = [pair for pair in zip(inputs, results) if not pair[1]["problem"]]
        if not pairs:
            raise errors.UserError(
                f"none of the {len(inputs):,} utterances could be read, so nothing was written; the reasons "
                "are printed above"
            )
        agreement = sum(result["agreement"] for _, result in pairs) / len(pairs)
        if agreement < _MIN_AGREEMENT:
            raise errors.UserError(
                f"the transcripts do not match the speech: only {agreement:.0%} of the tokens agree on "
                f"average (minimum: {_MIN_AGREEMENT:.0%}); use an export for the language of the corpus, or "
                "fix the order of the transcripts"
            )
        _write(output_dir, [_make_row(*pair, min_score) for pair in pairs])
    return len(results) - len(pairs)


def _make_row(recording: recordings.RecordingFile, result: Mapping, min_score: float) -> dict:
    unclear = suspects.UNCLEAR if result["score"] < min_score else ""
    return {
        **result,
        "id": recording.name,
        "audio": recording.path,
        "start": recording.utterance.start_seconds,
        "duration": result["seconds"],
        "channel": recording.utterance.channel,
        "text": recording.utterance.text or recording.utterance.pinyin,
        "fault": result["fault"] or unclear,
    }


def _write(output_dir: str, rows: Sequence[Mapping]) -> None:
    faulty = sorted((row for row in rows if row["fault"]), key=lambda row: row["score"])
    faults = collections.Counter(row["fault"] for row in faulty).most_common()
    page, table = (os.path.join(output_dir, name) for name in ("suspects.html", "suspects.tsv"))
    shown = {  # the keys are numbers, because several data directories may use the same id
        str(number): shard_recordings.Recording(row["audio"], row["start"], row["duration"], row["channel"])
        for number, row in enumerate(faulty[:_NUM_PLAYERS])
    }
    embedded = clips.embed(shown, list(shown))
    page_rows = [{**row, "clip": embedded.get(number)} for number, row in zip(shown, faulty)]
    counts = {"num_suspects": len(faulty), "num_utterances": len(rows)}
    template = report_page.template("suspects.html")
    recordings.save(page, template.render(rows=page_rows, faults=faults, **counts))
    recordings.save_table(os.path.join(output_dir, "scores.tsv"), _SCORE_COLUMNS, rows)
    recordings.save_table(table, _SUSPECT_COLUMNS, faulty)  # written last, because build reads it
    print(f"{len(faulty):,} of {len(rows):,} utterances are suspicious: {table}, {page}")
    for fault, count in faults:
        print(f"{fault}: {count:,}")
