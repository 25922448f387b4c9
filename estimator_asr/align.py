"""Cuts long recordings and their texts into a corpus, or checks the transcripts of a corpus, with an export.

    python -m estimator_asr.align --saved_model=EXPORT --output_dir=CORPUS
        --audio_dir=RECORDINGS --text_dir=TEXTS | --pairs=FILE [--min_score=0.3] [--num_workers=N | --runner=spark://HOST:7077|ray://HOST:10001]
        [--format=textgrid,ctm,json,srt,vtt]

The text of RECORDINGS/a/b.mp3 is TEXTS/a/b.txt: text as it was published, with numbers, headings and
brackets. CORPUS then contains manifest.tsv for `build --corpus=manifest`, which refers to the recordings by
start and duration; rejected.tsv, which lists what was left out and why (speech without text, text without
speech, utterances whose score is low, recordings that cannot be aligned); times/, with one file per recording
and --format, which says when each word is spoken; and .align/, from which the same command continues an
interrupted run, even with another --runner, --min_score or --format. If a recording cannot be aligned, the
reason is also printed to standard error, the others are aligned, and the exit code is 1.

    python -m estimator_asr.align --saved_model=EXPORT --output_dir=OUT
        --corpus_dir=DIR [--corpus=manifest] | --data_dir=DATA

checks the transcripts of a corpus of utterances: OUT then contains scores.tsv, with the score of each
utterance and token; suspects.tsv, the utterances whose transcripts are probably wrong, for `build --exclude`;
and suspects.html, which plays them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf

from estimator_asr.exporting.saved_model import export_info, recogniser
from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import (
    corpus_check,
    frame_scores,
    segments,
    text_pairs,
    texts,
    time_files,
    utterances,
)
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.program import config_flags, program
from tfrecord_builder.storage import files

_JOB_DIR, _TIMES_DIR = ".align", "times"
_ROWS = "spoken"  # keeps these rows apart from rows of earlier releases, whose pinyin differs
_MANIFEST_COLUMNS = ("id", "audio", "speaker", "text", "pinyin", "start", "duration", "score", "cut")
# The values in rejected.tsv for a recording that could not be aligned.
_REFUSED = {"start": 0.0, "seconds": "", "score": "", "text": "", "heard": ""}
_REJECTED_COLUMNS = ("audio", "start", "seconds", "problem", "score", "text", "heard")


@dataclasses.dataclass(frozen=True)
class AlignConfig(config_flags.Checked):
    """Flags of align."""

    saved_model: str = config_flags.setting(
        "", "export of a model that was trained on similar speech", required=True, checkpoints=True
    )
    audio_dir: Optional[str] = config_flags.setting(
        None, "folder of recordings, up to ten hours each", local=True
    )
    text_dir: Optional[str] = config_flags.setting(
        None, "folder of texts, NAME.txt for the recording NAME.wav, .mp3, .m4a, ...", local=True
    )
    pairs: Optional[str] = config_flags.setting(
        None,
        "instead of --audio_dir and --text_dir: file whose lines contain the paths of a recording and of its "
        "text, separated by a tab; paths are relative to the file's directory",
        local=True,
    )
    corpus_dir: tuple[str, ...] = config_flags.setting(
        (),
        "instead of recordings and texts: corpus whose utterances are compared with their transcripts; "
        "separate several directories with commas",
    )
    corpus: str = config_flags.setting(
        "manifest", "layout of --corpus_dir, as in build", choices=utterances.LAYOUTS
    )
    data_dir: tuple[str, ...] = config_flags.setting(
        (), "instead of --corpus_dir: comma-separated data directories that were built from the corpus"
    )
    output_dir: str = config_flags.setting("", "directory to write to", required=True, local=True)
    min_score: float = config_flags.setting(
        0.3,
        "minimum score of the utterances to keep; a score of 1 means that the model would recognise the "
        "same tokens without the text",
        minimum=0,
        maximum=1,
    )
    format: tuple[str, ...] = config_flags.setting(
        (),
        "formats of the files with the times of words in OUTPUT_DIR/times; separate several formats with "
        "commas; default: none",
        choices=tuple(time_files.FORMATS),
    )
    num_workers: Optional[int] = config_flags.setting(None, recording_units.NUM_WORKERS_HELP, minimum=1)
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)

    def __post_init__(self):
        super().__post_init__()
        folders = self.audio_dir, self.text_dir
        sources = any(folders), self.pairs, self.corpus_dir, self.data_dir
        if sum(map(bool, sources)) != 1 or any(folders) and not all(folders):
            raise errors.UserError(
                "align: pass either --audio_dir and --text_dir, or --pairs, or --corpus_dir, or --data_dir"
            )
        if self.format and (self.corpus_dir or self.data_dir):
            raise errors.UserError("align: --format works only with recordings and texts; omit it")
        if self.corpus != AlignConfig.corpus and not self.corpus_dir:
            raise errors.UserError(
                f"align: --corpus={self.corpus} has no effect without --corpus_dir; pass --corpus_dir, or "
                "omit --corpus"
            )


def main(config: AlignConfig) -> int:
    tf.get_logger().setLevel("ERROR")
    version_dir = recogniser.find_version(config.saved_model)
    info = export_info.load(version_dir)
    texts.make_tokeniser(info.token_type)  # refuses bpe before any recording is recognised
    if config.corpus_dir or config.data_dir:
        return _check_corpus(config, version_dir)
    inputs, num_skipped = text_pairs.find(config.audio_dir, config.text_dir, config.pairs)
    directory = os.path.join(config.output_dir, _JOB_DIR, f"{info.sha256[:12]}-{_ROWS}")
    exports, make_rows = ((version_dir, info.sha256),), functools.partial(segments.make_rows, info.token_type)
    writer = recording_units.RecordingWriter(directory, exports, frame_scores.FrameScorer, make_rows)
    with recording_units.reserve(config.output_dir, _JOB_DIR, "align"):
        folders = {os.path.dirname(path) for pair in inputs for path in (pair.path, pair.text_path)}
        shared = *sorted(folders), os.path.abspath(config.output_dir), os.path.abspath(version_dir)
        aligned = recording_units.recognise(
            inputs, writer, "align", config.runner, config.num_workers, shared
        )
        rows_by_recording, refused = [], []
        for recording, result in zip(inputs, aligned):
            rows_by_recording.append([_judge(row, recording, config) for row in result.get("rows", ())])
            if result.get("refusal"):
                print(f"error: {recording.path}: {result['refusal']}", file=sys.stderr)
            problem = result["problem"] or result["refusal"]
            if problem:
                refused.append({**_REFUSED, "audio": recording.path, "problem": problem})
        rows = list(itertools.chain.from_iterable(rows_by_recording))
        _write_times(config, zip(inputs, rows_by_recording), info.token_type)
        if rows or manifest.MANIFEST_FILE in files.list_names(config.output_dir):
            _write(config.output_dir, rows, refused)
    return 1 if refused or num_skipped else 0


def _check_corpus(config: AlignConfig, version_dir: str) -> int:
    if config.data_dir:
        inputs = utterances.list_data(config.data_dir)
    else:
        inputs = utterances.list_corpus(config.corpus, config.corpus_dir)
    engine = config.runner, config.num_workers
    num_bad = corpus_check.run(inputs, version_dir, config.output_dir, _JOB_DIR, config.min_score, *engine)
    return 1 if num_bad else 0


def _judge(row: dict, recording: recordings.RecordingFile, config: AlignConfig) -> dict:
    """Adds an utterance's id, recording and speaker to its row, and a problem if its score is low."""
    low = f"score is below {config.min_score:g}" if row["score"] < config.min_score else ""
    return {
        **row,
        "id": f"{recording.name}-{1000 * row['start']:08.0f}",
        "audio": recording.path,
        "speaker": recording.name,  # so that build does not divide a recording between train and dev
        "duration": row["seconds"],
        "problem": manifest.find_path_problem(recording.path) or row["problem"] or low,
    }


def _write_times(config, inputs, token_type) -> None:
    directory = os.path.join(config.output_dir, _TIMES_DIR)
    paths: set[str] = set()
    for recording, rows in inputs:
        aligned = [row for row in rows if row.get("words") and row["score"] >= config.min_score]
        paths |= set(time_files.write(recording, aligned, config.format, token_type, directory))
    time_files.remove_others(directory, paths)


def _write(output_dir: str, rows: Sequence[Mapping], refused: Sequence[Mapping]) -> None:
    """Writes rejected.tsv and manifest.tsv, and prints how much was kept.

    `refused` has a row for each recording that could not be aligned.
    """
    accepted = [
        {**row, "audio": manifest.make_relative(row["audio"], output_dir)}
        for row in rows
        if not row["problem"]
    ]
    rejected = [row for row in rows if row["problem"]]
    path = os.path.join(output_dir, dataset_info.REJECTED_FILE)
    recordings.save_table(path, _REJECTED_COLUMNS, [*refused, *rejected])
    path = os.path.join(output_dir, manifest.MANIFEST_FILE)
    recordings.save_table(path, _MANIFEST_COLUMNS, accepted)  # written last, because build reads it
    hours = sum(row["seconds"] for row in accepted) / 3600
    print(f"kept {len(accepted):,} utterances, {hours:.2f} hours: {path}")
    for problem in sorted({row["problem"] for row in rejected}):
        seconds = [row["seconds"] for row in rejected if row["problem"] == problem]
        print(f"rejected {len(seconds):,}, {sum(seconds) / 3600:.2f} hours: {problem}")


if __name__ == "__main__":
    program.run(main, AlignConfig)
