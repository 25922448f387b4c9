"""Recognises and scores a split; writes metrics.json, hypotheses.tsv, hypotheses.jsonl and report.html.

    python -m estimator_asr.evaluate --model_dir=AM --data_dir=DATA --split=test --output_dir=REPORT
    python -m estimator_asr.evaluate --model_dir=LM --data_dir=TEXT --split=test --output_dir=REPORT
    python -m estimator_asr.evaluate --model_dir=PM --data_dir=MARKS --split=test --output_dir=REPORT
    python -m estimator_asr.evaluate --saved_model=EXPORT --data_dir=DATA --split=test --output_dir=REPORT
    python -m estimator_asr.evaluate --model_dir=AM --data_dir=DATA --streaming --output_dir=REPORT
    python -m estimator_asr.evaluate --compare=REPORT_A,REPORT_B --output_dir=COMPARISON

An acoustic model is scored in tokens, a language model (which reads the reference tokens) in characters, an
export in both, and a punctuation model, alone or in an export, by the F1 of its marks. With --streaming, the
model reads recordings chunk by chunk, and the report shows how long after a syllable its token appears.
--compare reads reports on the same utterances and says whether the differences could be due to chance.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf
from absl import logging

from estimator_asr.decoding.hotwords import hotword_list
from estimator_asr.evaluation import chunkwise, recognised_split, recorded
from estimator_asr.exporting.saved_model import export_info, recogniser
from estimator_asr.inputs import splits
from estimator_asr.scoring import biasing, utterances
from estimator_asr.scoring.reports import comparison, formats, punctuation_report, report, scored_split
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.program import config_flags, program

_PRINTED = (*utterances.MEASURES, biasing.BIASED, biasing.UNBIASED, scored_split.WRITTEN_FORM)
_MAX_COMPARED = 26  # a comparison labels its reports A to Z


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(config_flags.Checked):
    """Flags of evaluate."""

    model_dir: Optional[str] = config_flags.setting(
        None, "model directory of an acoustic, language or punctuation model", checkpoints=True
    )
    saved_model: Optional[str] = config_flags.setting(
        None, "export directory, or one version in it", checkpoints=True
    )
    data_dir: tuple[str, ...] = config_flags.setting((), "comma-separated data directories")
    split: str = config_flags.setting("test", "split to evaluate on")
    output_dir: str = config_flags.setting(
        "", "directory for the report; an older report is replaced", required=True, local=True
    )
    decoding: Optional[str] = config_flags.setting(
        None, "with --model_dir: decoding method, beam or greedy; default: the setting of the model directory"
    )
    streaming: bool = config_flags.setting(
        False,
        "recognise chunk by chunk, as in a stream, and measure how long after a syllable its token becomes "
        "final; only for models that were trained with --chunk_frames",
    )
    chunk_frames: Optional[int] = config_flags.setting(
        None, "with --streaming and --model_dir: frames per chunk; default: as in training", positive=True
    )
    format: Optional[str] = config_flags.setting(
        None,
        "with --saved_model: evaluate the model that export wrote with this --format, litert or onnx; needs "
        "the original recordings",
        choices=recorded.FORMATS,
    )
    hotwords: tuple[str, ...] = config_flags.setting((), f"with --saved_model: {hotword_list.FLAG_HELP}")
    hotwords_file: Optional[str] = config_flags.setting(
        None, f"with --saved_model: {hotword_list.FILE_FLAG_HELP}"
    )
    group_pattern: Optional[str] = config_flags.setting(
        None,
        "regular expression, such as ^[A-Za-z]+; speakers are grouped by the part of their names that it "
        "matches",
    )
    compare: tuple[str, ...] = config_flags.setting(
        (), "compare two or more reports on the same utterances (separated by commas); no model is needed"
    )

    def __post_init__(self):
        super().__post_init__()
        if self.compare:
            return self._check_comparison()
        if not self.data_dir:
            raise errors.UserError("--data_dir is missing; pass it (comma-separated data directories)")
        if self.model_dir is None and self.saved_model is None:
            raise errors.UserError("evaluate: neither --model_dir nor --saved_model is set; pass one of them")
        if self.model_dir is not None and self.saved_model is not None:
            raise errors.UserError("evaluate: --model_dir and --saved_model are both set; pass one of them")
        if os.path.exists(os.path.join(self.output_dir, dataset_info.INFO_FILE)):
            raise errors.UserError(
                f"evaluate: --output_dir={self.output_dir} is a data directory, and its report.html would be "
                "overwritten; choose another directory"
            )
        if self.decoding is not None and self.model_dir is None:
            raise errors.UserError(
                f"evaluate: --decoding={self.decoding} has no effect on an export; export the model again "
                "with this --decoding, or pass --model_dir instead of --saved_model"
            )
        has_hotwords = bool(self.hotwords or self.hotwords_file)
        if has_hotwords and self.model_dir is not None:
            raise errors.UserError(
                "evaluate: hotwords work only with an export; export the model, and pass --saved_model "
                "instead of --model_dir"
            )
        if has_hotwords and self.streaming:
            raise errors.UserError(
                "evaluate: --streaming does not support hotwords; omit --streaming or the hotwords"
            )
        if self.format and (self.model_dir is not None or self.streaming):
            raise errors.UserError(
                f"evaluate: --format={self.format} works only with --saved_model and without --streaming; "
                "omit --format"
            )
        if self.chunk_frames is not None and not (self.streaming and self.model_dir):
            raise errors.UserError(
                f"evaluate: --chunk_frames={self.chunk_frames} works only with --streaming and --model_dir; "
                "to change the chunk size of an export, export the model again with --chunk_frames"
            )
        try:
            re.compile(self.group_pattern or "")
        except re.error as error:
            raise errors.UserError(
                f"evaluate: --group_pattern={self.group_pattern} is not a valid regular expression ({error})"
            ) from error

    def _check_comparison(self):
        if len(set(self.compare)) < max(2, len(self.compare)):
            raise errors.UserError(
                f"evaluate: --compare={','.join(self.compare)} must list two or more different reports, "
                "separated by commas"
            )
        if len(self.compare) > _MAX_COMPARED:
            raise errors.UserError(
                f"evaluate: --compare has {len(self.compare)} reports, expected at most {_MAX_COMPARED}; "
                "compare fewer reports"
            )
        if self.model_dir or self.saved_model or self.data_dir:
            raise errors.UserError(
                "evaluate: --compare reads only reports; omit --model_dir, --saved_model and --data_dir"
            )


def evaluate(config: EvaluateConfig) -> dict:
    """Recognises and scores the split, and writes the report; returns the contents of metrics.json."""
    infos = dataset_info.load_all(config.data_dir)
    if not any(config.split in info.splits for info in infos):
        infos[0].shard_paths(config.data_dir[0], config.split)  # this raises an error that lists all splits
    data = dict(zip(config.data_dir, infos))
    if config.streaming:
        chunkwise.check_lengths(data, config.split)
    report.create_output_dir(config.output_dir)  # an unusable directory fails here, before the slow part
    subject = _open_subject(config, data)
    model_path = str(subject.facts["model"])
    source = splits.read_split(infos, config.data_dir, config.split, subject.spec)
    if config.split != "train" and not subject.spec.writes_marks:  # the speaker of a text is its corpus
        for sentence in splits.describe_seen_speakers(infos, config.split):
            logging.warning("evaluate: %s", sentence)
    if config.format:
        subject = recorded.replace_recogniser(subject, source, model_path, config.format)
    with contextlib.closing(subject.recogniser.session):
        with splits.explain_damage(config.data_dir, config.split):
            recognised = recognised_split.recognise(subject, source)
    facts = {**subject.facts, "data": ",".join(config.data_dir), "split": config.split}
    if subject.form and not recognised.marked:
        where = f"split {config.split!r} in {facts['data']}"
        problem = f"{where} has no punctuation marks, so none are evaluated"
        logging.warning("evaluate: %s; build the data again from text with marks", problem)
    if subject.spec.writes_marks:
        return punctuation_report.write(recognised.marked, facts, config.output_dir)
    saved_model = model_path if config.saved_model else None  # the command must name the evaluated version
    flags = config_flags.to_command_line(dataclasses.replace(config, saved_model=saved_model))
    scored = scored_split.ScoredSplit(
        facts,
        **recognised._asdict(),
        group_pattern=config.group_pattern,
        are_speakers_people=any(info.frontend is not None for info in infos),
        hotwords=subject.hotwords,
        vocabularies=subject.vocabularies,
        recordings=_find_recordings(source, recognised.outputs),
        command=shlex.join(["python", "-m", "estimator_asr.evaluate", *flags]),
    )
    return report.write(scored, config.output_dir)


def _open_subject(config: EvaluateConfig, data: recognised_split.Data) -> recognised_split.EvaluatedModel:
    if config.model_dir is not None:
        chunks = (config.chunk_frames or 0) if config.streaming else None
        return recognised_split.open_model(config.model_dir, config.decoding, data, chunks)
    version_dir = recogniser.find_version(config.saved_model)
    token_type = export_info.load(version_dir).token_type
    # Hotwords must be lowercase, like the references in the data.
    hotwords = [word.lower() for word in hotword_list.read_for(version_dir, token_type, config)]
    return recognised_split.open_version(version_dir, hotwords, data, config.streaming)


def _find_recordings(source: splits.Split, outputs: Sequence[Mapping]) -> dict[str, recordings.Recording]:
    ids = {row["utterance_id"] for row in outputs}
    try:
        return recordings.find_all([shard.path for shard in source.shards], ids)
    except (errors.UserError, OSError) as error:
        logging.warning("evaluate: the report will contain no audio: %s", error)
        return {}


def _print_summary(metrics: Mapping, config: EvaluateConfig) -> None:
    for group, rates in {"": metrics, **metrics.get("by_group", {})}.items():
        for measure in (name for name in _PRINTED if name in rates):
            label = f"{group} {formats.format_name(measure)}".lstrip()
            print(f"{label}: {formats.format_rate(rates[measure])}, {rates[measure]['errors']} errors")
    for sentence in punctuation_report.describe(metrics.get("marks", metrics)):
        print(sentence)
    if "emission_delay" in metrics:
        print(formats.describe_delay(metrics["emission_delay"]))
    if metrics.get("num_utterances_of_unknown_speakers"):
        print(formats.describe_speakers(metrics))
    print(f"report: {os.path.join(config.output_dir, report.REPORT_FILE)}")


def main(config: EvaluateConfig) -> None:
    tf.get_logger().setLevel("ERROR")
    if not config.compare:
        return _print_summary(evaluate(config), config)
    report.create_output_dir(config.output_dir)
    reports = {path: report.read(path) for path in config.compare}
    differences = comparison.compare(reports)
    comparison.write(differences, reports, config.output_dir)
    print(*differences, f"comparison: {os.path.join(config.output_dir, comparison.FILE)}", sep="\n")


if __name__ == "__main__":
    program.run(main, EvaluateConfig)
