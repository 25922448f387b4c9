"""Transcribes speech that has no transcripts, and writes a corpus of the utterances that can be trusted.

    python -m estimator_asr.pseudo_label --saved_model=EXPORT --audio_dir=RECORDINGS --output_dir=CORPUS
        [--second_saved_model=EXPORT2] [--report_dir=REPORT --max_error_rate=0.05]

EXPORT is the teacher, and EXPORT2 an optional second teacher. An utterance is kept if the teacher's pinyin
agrees with the best path of its acoustic model alone and with any second teacher's pinyin, and if the
confidence is at least --min_confidence, or the minimum chosen from a report on dev. CORPUS then contains
manifest.tsv for `build --corpus=manifest`, rejected.tsv, and .pseudo_label/, from which the same command
continues an interrupted run, even with another --runner. If a file cannot be read, its name is printed to
standard error, the other files are still transcribed, and the exit code is 1.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf

from estimator_asr.exporting.saved_model import export_info, recogniser
from estimator_asr.scoring import utterances
from estimator_asr.scoring.reports import report
from estimator_asr.serving import recording_units
from estimator_asr.serving.transcripts import pseudo_labels, recordings
from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.program import config_flags, config_json, program
from tfrecord_builder.storage import files

# Columns of rejected.tsv.
_COLUMNS = ("id", "audio", "start", "seconds", "confidence", "disagreement", "problem")
_JOB_DIR = ".pseudo_label"


@dataclasses.dataclass(frozen=True)
class PseudoLabelConfig(config_flags.Checked):
    """Flags of pseudo_label."""

    saved_model: str = config_flags.setting(
        "", "export of the teacher model", required=True, checkpoints=True
    )
    second_saved_model: Optional[str] = config_flags.setting(
        None, "export of a second teacher model", checkpoints=True
    )
    audio_dir: str = config_flags.setting("", "folder of recordings", required=True, local=True)
    output_dir: str = config_flags.setting("", "directory of the corpus to write", required=True, local=True)
    max_disagreement: float = config_flags.setting(
        0.0, "maximum error rate between the decodings of an utterance that is kept", minimum=0
    )
    min_confidence: float = config_flags.setting(
        0.9, "without --report_dir: minimum confidence of the utterances that are kept", minimum=0, maximum=1
    )
    report_dir: Optional[str] = config_flags.setting(
        None, "report from evaluate on the dev split, used to choose the minimum confidence", local=True
    )
    max_error_rate: float = config_flags.setting(
        0.05, "with --report_dir: maximum token error rate on the dev utterances that are kept", minimum=0
    )
    num_workers: Optional[int] = config_flags.setting(None, recording_units.NUM_WORKERS_HELP, minimum=1)
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)

    def __post_init__(self):
        super().__post_init__()
        name = "max_error_rate" if self.report_dir is None else "min_confidence"
        if getattr(self, name) != getattr(PseudoLabelConfig, name):
            state, advice = ("not set", "pass it") if self.report_dir is None else ("set", "omit it")
            problem = f"has no effect, because --report_dir is {state}; {advice}, or omit --{name}"
            raise errors.UserError(f"--{name}={getattr(self, name):g} {problem}")


def main(config: PseudoLabelConfig) -> int:
    tf.get_logger().setLevel("ERROR")
    audio_dir = os.path.abspath(config.audio_dir)
    if not os.path.isdir(audio_dir):
        raise errors.UserError(f"--audio_dir={audio_dir} is not a directory; pass a folder of recordings")
    exports = _find_exports(config)
    settings = resumable.hash_json([sha256 for _, sha256 in exports])
    directory = os.path.join(config.output_dir, _JOB_DIR, settings[:12])
    writer = recording_units.RecordingWriter(
        directory, exports, pseudo_labels.find_teachers, pseudo_labels.keep
    )
    with recording_units.reserve(config.output_dir, _JOB_DIR, "pseudo_label"):
        limits = config.max_disagreement, _choose_confidence(config, exports[0][0])
        shared = audio_dir, config.output_dir, *(version_dir for version_dir, _ in exports)
        inputs = recordings.find([audio_dir])
        decoded = recording_units.recognise(
            inputs, writer, "pseudo_label", config.runner, config.num_workers, shared
        )
        rows = [
            {**row, "audio": recording.path, "problem": decoding["problem"]}
            for recording, decoding in zip(inputs, decoded)
            for row in decoding.get("rows", pseudo_labels.list_rows(()))
        ]
        for row in rows:
            _judge(row, audio_dir, limits)
        _write(config.output_dir, rows)
    return 1 if any(decoding["problem"] for decoding in decoded) else 0


def _judge(row: dict, audio_dir: str, limits: tuple[float, float]) -> None:
    """Adds an utterance's id and problem to its row; the problem is "" if the utterance is kept."""
    row["id"] = f"{os.path.relpath(row['audio'], audio_dir)}-{1000 * row['start']:08.0f}"
    row["problem"] = row["problem"] or pseudo_labels.find_problem(row, *limits)
    row["problem"] = manifest.find_path_problem(row["audio"]) or row["problem"]


def _find_exports(config: PseudoLabelConfig) -> tuple[tuple[str, str], ...]:
    """Returns (directory of the version, sha256 of the export) for each teacher.

    Raises UserError if a teacher does not output syllables, or if the teachers' sample rates differ.
    """
    paths = filter(None, (config.saved_model, config.second_saved_model))
    infos = {path: export_info.load(path) for path in map(recogniser.find_version, paths)}
    want = "syllable", next(iter(infos.values())).frontend.sample_rate
    for version_dir, info in infos.items():
        got = info.token_type, info.frontend.sample_rate
        if got != want:
            problem = "token type is {} and sample rate is {} Hz, expected {} and {} Hz".format(*got, *want)
            raise errors.UserError(f"{version_dir}: {problem}; export another model")
    return tuple((version_dir, info.sha256) for version_dir, info in infos.items())


def _choose_confidence(config: PseudoLabelConfig, teacher_dir: str) -> float:
    """Returns the minimum confidence; if there is a report, prints and plots the minimums to choose from."""
    if config.report_dir is None:
        return config.min_confidence
    outputs, edits = _read_report(config.report_dir, teacher_dir)
    candidates = pseudo_labels.list_candidates(outputs, edits, config.max_disagreement)
    for minimum, kept_fraction, wrong in candidates:
        print(
            f"minimum confidence {minimum:g} keeps {kept_fraction:.1%} of the dev utterances; {wrong:.2%} of "
            "their tokens are wrong"
        )
    good = [minimum for minimum, _, wrong in candidates if wrong <= config.max_error_rate]
    if not good:
        problem, flag = "no utterance is kept at any minimum confidence", "max_disagreement"
        if candidates:
            lowest, flag = min(wrong for *_, wrong in candidates), "max_error_rate"
            limit = f"(limit: {config.max_error_rate:.2%})"
            problem = f"the error rate is at least {lowest:.2%} at every minimum confidence {limit}"
        raise errors.UserError(
            f"--report_dir={config.report_dir}: {problem}; set a larger --{flag}, or improve the teacher"
        )
    with files.writing(os.path.join(config.output_dir, "confidence.png")) as temporary:
        pseudo_labels.draw(candidates, config.max_error_rate, temporary)
    print(f"chosen minimum confidence: {good[0]:g}")
    return good[0]


def _read_report(report_dir: str, version_dir: str) -> tuple[list[dict], list]:
    """Returns the outputs and the token edits for each utterance in a report on the export `version_dir`."""
    measures, where = report.read(report_dir), f"--report_dir={report_dir}"
    try:
        model = config_json.parse(files.read_text(os.path.join(report_dir, report.METRICS_FILE)))["model"]
        same = os.path.realpath(model) == os.path.realpath(version_dir)
    except (OSError, ValueError, LookupError, TypeError) as error:
        problem = f"{report.METRICS_FILE} cannot be read ({type(error).__name__}: {error})"
        raise errors.UserError(f"{where}: {problem}; run evaluate again") from error
    if not same:
        raise errors.UserError(
            f"{where} is a report on {model}, not on {version_dir}; evaluate the teacher's export"
        )
    lines = files.read_text(os.path.join(report_dir, report.OUTPUTS_FILE)).split("\n")
    outputs = [config_json.parse(line) for line in lines if line]
    edits = [utterance.edits for utterance in measures.get(utterances.TOKEN_ERROR_RATE, ())]
    if len(edits) != len(outputs) or not all(row.keys() >= pseudo_labels.OUTPUTS for row in outputs):
        wanted = f"token error rate, {', '.join(sorted(pseudo_labels.OUTPUTS))}"
        raise errors.UserError(
            f"{where}: the report does not contain all values for each utterance ({wanted}); evaluate the "
            "teacher again, on data that has pinyin"
        )
    return outputs, edits


def _write(output_dir: str, rows: Sequence[Mapping]) -> None:
    """Writes manifest.tsv and rejected.tsv, and prints how many utterances and hours were kept."""
    path = os.path.join(output_dir, manifest.MANIFEST_FILE)
    accepted = [row for row in rows if not row["problem"]]
    with files.writing(path) as temporary:
        manifest.write_manifest(temporary, map(_to_utterance, accepted))
    rejected = (row for row in rows if row["problem"])
    recordings.save_table(os.path.join(output_dir, dataset_info.REJECTED_FILE), _COLUMNS, rejected)
    hours = [sum(row["seconds"] for row in group) / 3600 for group in (accepted, rows)]
    counts = f"{len(accepted):,} of {len(rows):,} utterances, {hours[0]:.2f} of {hours[1]:.2f} hours"
    print(f"kept {counts}: {path}")


def _to_utterance(row: Mapping) -> manifest.Utterance:
    labels = "", row["text"], row["pinyin"], "train"
    return manifest.Utterance(row["id"], row["audio"], *labels, row["start"], row["seconds"])


if __name__ == "__main__":
    program.run(main, PseudoLabelConfig)
