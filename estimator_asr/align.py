"""Cuts long recordings and their texts into a corpus of utterances, with an exported model.

    python -m estimator_asr.align --saved_model=EXPORT --output_dir=CORPUS
        --audio_dir=RECORDINGS --text_dir=TEXTS | --pairs=FILE [--min_score=0.5] [--num_workers=N | --runner=spark://HOST:7077|ray://HOST:10001]
        [--format=textgrid,ctm,json,srt,vtt]

The text of RECORDINGS/a/b.mp3 is TEXTS/a/b.txt: text as it was published, with numbers, headings and
brackets. CORPUS then contains manifest.tsv for `build --corpus=manifest`, which refers to the recordings by
start and duration; rejected.tsv, which lists what was left out and why (speech without text, text without
speech, utterances whose score is low); times/, with one file per recording and --format, which says when each
word is spoken; and .align/, from which the same command continues an interrupted run, even with another
--runner, --min_score or --format. If a recording cannot be aligned, the reason is printed to standard error,
the others are aligned, and the exit code is 1.
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
from estimator_asr.serving.alignment import frame_scores, segments, texts, time_files
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.program import config_flags, program
from tfrecord_builder.storage import files, locks

_JOB_DIR, _TIMES_DIR = ".align", "times"
_ROWS = "words"  # rows of earlier versions have no words
_MANIFEST_COLUMNS = ("id", "audio", "text", "pinyin", "start", "duration", "score", "cut")
_REJECTED_COLUMNS = ("audio", "start", "seconds", "problem", "score", "text", "heard")


@dataclasses.dataclass(frozen=True)
class AlignConfig(config_flags.Checked):
    """Flags of align."""

    saved_model: str = config_flags.setting(
        "",
        "export of a model that recognises speech like that in the recordings",
        required=True,
        checkpoints=True,
    )
    audio_dir: Optional[str] = config_flags.setting(
        None, "folder of recordings, up to ten hours each", local=True
    )
    text_dir: Optional[str] = config_flags.setting(
        None, "folder of texts, NAME.txt for the recording NAME.wav, .mp3, .m4a, ...", local=True
    )
    pairs: Optional[str] = config_flags.setting(
        None,
        "instead of --audio_dir and --text_dir: file with a recording and its text on each line, separated "
        "by a tab; paths are relative to the file's directory",
        local=True,
    )
    output_dir: str = config_flags.setting("", "directory of the corpus to write", required=True, local=True)
    min_score: float = config_flags.setting(
        0.5,
        "minimum score of the utterances to keep; 1 means that the model alone would have recognised the "
        "same tokens",
        minimum=0,
        maximum=1,
    )
    format: tuple[str, ...] = config_flags.setting(
        (),
        "formats of the files with times of words in OUTPUT_DIR/times, separated by commas; default: none",
        choices=tuple(time_files.FORMATS),
    )
    num_workers: Optional[int] = config_flags.setting(None, recording_units.NUM_WORKERS_HELP, minimum=1)
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)

    def __post_init__(self):
        super().__post_init__()
        folders = self.audio_dir, self.text_dir
        if any(folders) if self.pairs else not all(folders):
            raise errors.UserError("align: pass either --audio_dir and --text_dir, or --pairs")


def main(config: AlignConfig) -> int:
    tf.get_logger().setLevel("ERROR")
    version_dir = recogniser.find_version(config.saved_model)
    info = export_info.load(version_dir)
    texts.make_tokeniser(info.token_type)  # refuses bpe before any recording is recognised
    inputs, num_skipped = _find_pairs(config)
    directory = os.path.join(config.output_dir, _JOB_DIR, f"{info.sha256[:12]}-{_ROWS}")
    exports, make_rows = ((version_dir, info.sha256),), functools.partial(segments.make_rows, info.token_type)
    writer = recording_units.RecordingWriter(directory, exports, frame_scores.FrameScorer, make_rows)
    files.make_directory(config.output_dir)
    busy = f"--output_dir: another align is writing to {config.output_dir}; wait until it ends"
    with locks.exclusive(config.output_dir, busy):
        recording_units.check_output_dir(config.output_dir, _JOB_DIR, "align")
        files.make_directory(directory)
        folders = {os.path.dirname(path) for pair in inputs for path in (pair.path, pair.text_path)}
        shared = *sorted(folders), os.path.abspath(config.output_dir), os.path.abspath(version_dir)
        aligned = recording_units.recognise(
            inputs, writer, "align", config.runner, config.num_workers, shared
        )
        for recording, result in zip(inputs, aligned):
            if result.get("refusal"):
                print(f"error: {recording.path}: {result['refusal']}", file=sys.stderr)
        rows_by_recording = [
            [_judge(row, recording, config) for row in result.get("rows", ())]
            for recording, result in zip(inputs, aligned)
        ]
        rows = list(itertools.chain.from_iterable(rows_by_recording))
        if rows or manifest.MANIFEST_FILE in files.list_names(config.output_dir):
            _write(config.output_dir, rows)
        _write_times(config, zip(inputs, rows_by_recording), info.token_type)
    num_bad = sum(bool(result["problem"] or result.get("refusal")) for result in aligned)
    return 1 if num_bad or num_skipped else 0


def _find_pairs(config: AlignConfig) -> tuple[list[recordings.RecordingFile], int]:
    """Returns the recordings that have a usable text; prints why other files are skipped, and counts them."""
    if config.pairs:
        pairs, skipped = [recordings.RecordingFile(*row) for row in texts.read_pairs(config.pairs)], []
    else:
        pairs, skipped = _find_in_folders(config.audio_dir, config.text_dir)
    usable = []
    for pair in pairs:
        try:
            texts.check(pair.text_path)
            usable.append(pair)
        except errors.UserError as error:
            skipped.append(f"error: {error}")
    for line in skipped:
        print(line, file=sys.stderr)
    if not usable:
        where = f"--pairs={config.pairs}" if config.pairs else f"--text_dir={config.text_dir}"
        raise errors.UserError(
            f"{where} has no usable text for any recording; the text of --audio_dir/SUB/NAME.wav must be "
            "--text_dir/SUB/NAME.txt, or stand beside the recording in --pairs"
        )
    return usable, len(skipped)


def _find_in_folders(audio_dir: str, text_dir: str) -> tuple[list[recordings.RecordingFile], list[str]]:
    """Returns the recordings that have a text, and a warning for each other file."""
    for name, path in (("audio_dir", audio_dir), ("text_dir", text_dir)):
        if not os.path.isdir(path):
            raise errors.UserError(f"--{name}={path} is not a directory; pass a folder")
    audio_dir, text_dir = os.path.abspath(audio_dir), os.path.abspath(text_dir)
    audio = _index(audio_dir, [recording.path for recording in recordings.find([audio_dir])])
    text_paths = _index(text_dir, files.find_files(text_dir, (".txt",)))
    pairs = [
        recordings.RecordingFile(audio[name], name, text_paths[name]) for name in audio if name in text_paths
    ]
    warnings = [
        f"warning: {path} has no text {name}.txt in --text_dir; it is skipped"
        for name, path in audio.items()
        if name not in text_paths
    ]
    warnings += [
        f"warning: {path} has no recording of this name in --audio_dir; it is skipped"
        for name, path in text_paths.items()
        if name not in audio
    ]
    return pairs, warnings


def _index(directory: str, paths: Sequence[str]) -> dict[str, str]:
    """Maps names (paths in the directory, without extensions) to paths, without hidden files.

    Raises errors.UserError if two files have the same name.
    """
    by_name: dict[str, str] = {}
    for path in paths:
        name = os.path.splitext(os.path.relpath(path, directory))[0]
        other = by_name.setdefault(name, path)
        if other != path:
            raise errors.UserError(
                f"{other} and {path} have the same name apart from the extension, so align cannot tell which "
                "files belong together; rename or remove one of them"
            )
    return {name: path for name, path in by_name.items() if os.path.basename(path)[0] != "."}


def _judge(row: dict, recording: recordings.RecordingFile, config: AlignConfig) -> dict:
    """Adds the id and paths to an utterance's row, and a problem if its score is low."""
    low = f"score is below {config.min_score:g}" if row["score"] < config.min_score else ""
    return {
        **row,
        "id": f"{recording.name}-{1000 * row['start']:08.0f}",
        "audio": recording.path,
        "duration": row["seconds"],
        "problem": manifest.find_path_problem(recording.path) or row["problem"] or low,
    }


def _write_times(config, inputs, token_type) -> None:
    directory = os.path.join(config.output_dir, _TIMES_DIR)
    for recording, rows in inputs:
        aligned = [row for row in rows if row.get("words") and row["score"] >= config.min_score]
        time_files.write(recording, aligned, config.format, token_type, directory)


def _write(output_dir: str, rows: Sequence[Mapping]) -> None:
    """Writes manifest.tsv and rejected.tsv, and prints how much was kept."""
    here = os.path.realpath(output_dir)
    accepted = [{**row, "audio": os.path.relpath(row["audio"], here)} for row in rows if not row["problem"]]
    path, rejected_path = (
        os.path.join(output_dir, name) for name in (manifest.MANIFEST_FILE, dataset_info.REJECTED_FILE)
    )
    rejected = [row for row in rows if row["problem"]]
    recordings.save_table(path, _MANIFEST_COLUMNS, accepted)
    recordings.save_table(rejected_path, _REJECTED_COLUMNS, rejected)
    hours = sum(row["seconds"] for row in accepted) / 3600
    print(f"kept {len(accepted):,} utterances, {hours:.2f} hours: {path}")
    for problem in sorted({row["problem"] for row in rejected}):
        seconds = [row["seconds"] for row in rejected if row["problem"] == problem]
        print(f"rejected {len(seconds):,}, {sum(seconds) / 3600:.2f} hours: {problem}")


if __name__ == "__main__":
    program.run(main, AlignConfig)
