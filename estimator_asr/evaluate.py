"""Recognises a split and scores it: metrics.json, hypotheses.tsv, hypotheses.jsonl and report.html.

    python -m estimator_asr.evaluate --model_dir=AM --data_dir=DATA --split=test --output_dir=REPORT
    python -m estimator_asr.evaluate --model_dir=LM --data_dir=TEXT --split=test --output_dir=REPORT
    python -m estimator_asr.evaluate --saved_model=EXPORT --data_dir=DATA --split=test --output_dir=REPORT
    python -m estimator_asr.evaluate --compare=REPORT_A,REPORT_B --output_dir=COMPARISON

An acoustic model is scored in tokens, a language model (given the reference tokens) in characters, an export
in both. Hypotheses are compared as text with the references of the records, each utterance once.
--compare reads reports of the same utterances and tells whether their difference is chance.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf
import tqdm

from estimator_asr import config as config_lib
from estimator_asr import hotword_list, model_directory, task_spec
from estimator_asr.inputs import input_fn, splits
from estimator_asr.scoring import biasing, comparison, report, utterances
from estimator_asr.serving import export_info, recogniser, trained_model
from tfrecord_builder import config_flags, config_json, dataset_info, errors, program

# Measure -> (reference, a feature of the record; hypothesis, an output of the recogniser).
_TOKENS = {utterances.TOKEN_ERROR_RATE: ("pronunciation", "pinyin")}
_CHARACTERS = {utterances.CHARACTER_ERROR_RATE: ("transcript", "transcript")}

_PRINTED = (*utterances.MEASURES, biasing.BIASED, biasing.UNBIASED)


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(config_flags.Checked):
    """Flags of evaluate."""

    model_dir: Optional[str] = config_flags.setting(None, "model directory, acoustic or language")
    saved_model: Optional[str] = config_flags.setting(None, "export directory, or one version in it")
    data_dir: tuple[str, ...] = config_flags.setting((), "data directories, comma separated")
    split: str = config_flags.setting("test", "split to evaluate on")
    output_dir: str = config_flags.setting(
        "", "directory of the report; an older one is replaced", required=True
    )
    decoding: Optional[str] = config_flags.setting(
        None, "with --model_dir: search for the tokens, beam or greedy; default: that of the model directory"
    )
    hotwords: tuple[str, ...] = config_flags.setting((), f"with --saved_model: {hotword_list.FLAG_HELP}")
    hotwords_file: Optional[str] = config_flags.setting(
        None, f"with --saved_model: {hotword_list.FILE_FLAG_HELP}"
    )
    group_pattern: Optional[str] = config_flags.setting(
        None, "regular expression whose match in the speaker's name is the group to report, as ^[A-Za-z]+"
    )
    compare: tuple[str, ...] = config_flags.setting(
        (), "two or more reports of the same utterances to compare, comma separated; needs no model"
    )

    def __post_init__(self):
        super().__post_init__()
        if self.compare:
            return self._check_comparison()
        if not self.data_dir:
            raise errors.UserError("--data_dir is missing; pass it (data directories, comma separated)")
        if (self.model_dir is None) == (self.saved_model is None):
            got = "neither is" if self.model_dir is None else "both are"
            raise errors.UserError(
                f"evaluate: --model_dir and --saved_model: {got} given, expected one of them"
            )
        if os.path.exists(os.path.join(self.output_dir, dataset_info.INFO_FILE)):
            raise errors.UserError(
                f"evaluate: --output_dir={self.output_dir} contains data, whose report.html would be "
                "replaced; give another directory"
            )
        if self.decoding is not None and self.model_dir is None:
            raise errors.UserError(
                f"evaluate: --decoding={self.decoding} is given with --saved_model, expected --model_dir; "
                "export the model again with that --decoding"
            )
        if (self.hotwords or self.hotwords_file) and self.saved_model is None:
            raise errors.UserError(
                "evaluate: hotwords are given with --model_dir, expected --saved_model; export the model"
            )
        _check_pattern(self.group_pattern)

    def _check_comparison(self):
        if len(set(self.compare)) < max(2, len(self.compare)):
            raise errors.UserError(
                f"evaluate: --compare={','.join(self.compare)}: expected two or more different reports; give "
                "them comma separated"
            )
        if self.model_dir or self.saved_model or self.data_dir:
            raise errors.UserError(
                "evaluate: --compare is given with a model or data, expected reports alone; leave out "
                "--model_dir, --saved_model and --data_dir"
            )


def _check_pattern(pattern: Optional[str]) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise errors.UserError(
            f"evaluate: --group_pattern={pattern} is not a valid regular expression ({error}); fix it"
        ) from error


class Subject(NamedTuple):
    """What is evaluated."""

    recogniser: recogniser.Recogniser  # the model
    spec: task_spec.TaskSpec  # what it reads
    input: config_lib.InputConfig  # how records become batches
    measures: Mapping[str, tuple[str, str]]  # measure to reference and hypothesis
    facts: Mapping[str, object]  # name to text or number, for the report
    hotwords: Sequence[str] = ()  # as the recogniser reads them


def evaluate(config: EvaluateConfig) -> dict:
    """Recognises, scores and writes the report; returns the content of metrics.json."""
    infos = dataset_info.load_all(config.data_dir)
    if not any(config.split in info.splits for info in infos):
        infos[0].shard_paths(config.data_dir[0], config.split)  # refuses it and lists the splits that exist
    report.create_output_dir(config.output_dir)  # before the model is opened
    subject = (_open_saved_model if config.model_dir is None else _open_model)(config, infos)
    source = splits.read_split(infos, config.data_dir, config.split, subject.spec)
    with contextlib.closing(subject.recogniser.session), splits.explain_damage(config.data_dir, config.split):
        scored, outputs = _score(subject, source)
    facts = {**subject.facts, "data": ",".join(config.data_dir), "split": config.split}
    are_speakers_people = any(info.frontend is not None for info in infos)
    people = config.group_pattern, are_speakers_people
    scored_split = report.ScoredSplit(facts, scored, *people, outputs, subject.hotwords)
    return report.write(scored_split, config.output_dir)


def _open_model(config: EvaluateConfig, infos: Sequence[dataset_info.DatasetInfo]) -> Subject:
    trained = trained_model.open_trained_model(config.model_dir, config.decoding)
    model, spec = trained.model, trained.model.config.spec
    for info, path in zip(infos, config.data_dir):
        model_directory.check_data(config.model_dir, model.config, info, path)
    measures = _measures(not spec.writes_characters, model.output_token_type)
    facts = {"model": config.model_dir, "checkpoint": trained.checkpoint, "global_step": trained.global_step}
    return Subject(trained_model.build_recogniser(trained), spec, model.config.input, measures, facts)


def _open_saved_model(config: EvaluateConfig, infos: Sequence[dataset_info.DatasetInfo]) -> Subject:
    version_dir = recogniser.find_version(config.saved_model)
    exported = export_info.load(version_dir)
    for info, path in zip(infos, config.data_dir):
        pairs = {
            "sha256 of tokens.txt": (info.tokens_sha256[:12], exported.acoustic.tokens_sha256[:12]),
            "frontend": (info.frontend, exported.frontend),
        }
        assets = os.path.join(version_dir, "assets")
        model_directory.refuse_difference(path, version_dir, pairs, assets, exported)
    measures = _measures(True, exported.token_type if exported.language is None else "character")
    batching = config_json.from_json_dict(config_lib.InputConfig, exported.input)
    hotwords = hotword_list.read_for(version_dir, config)
    recognise = recogniser.load(version_dir, "features", hotwords)
    facts = {"model": version_dir, **({"hotwords": len(hotwords)} if hotwords else {})}
    return Subject(recognise, task_spec.ACOUSTIC, batching, measures, facts, hotwords)


def _measures(has_tokens: bool, token_type: str) -> dict[str, tuple[str, str]]:
    """Returns the measures of an output of tokens, and of a transcript of the token type."""
    return {**(_TOKENS if has_tokens else {}), **(_CHARACTERS if token_type in ("character", "bpe") else {})}


def _score(subject: Subject, source: splits.Split) -> tuple[dict[str, list], list[dict]]:
    """Recognises every utterance once.

    Returns:
        utterances.ScoredUtterance of each measure, and the outputs of each utterance; both ordered by ids.
    """
    scored, outputs = {measure: [] for measure in subject.measures}, []
    read = input_fn.build_input_fn(source, subject.input, training=False)
    total = source.num_utterances
    with tqdm.tqdm(total=total, unit=" utterances", desc="evaluate", disable=None) as progress:
        for batch, _ in input_fn.read_elements(read):
            found = subject.recogniser.run(batch)
            ids, speakers = (_texts(batch, name) for name in ("utterance_id", "speaker"))
            for measure, (reference, hypothesis) in subject.measures.items():
                rows = zip(ids, speakers, _texts(batch, reference), found[hypothesis])
                scored[measure] += [utterances.score(measure, *row) for row in rows]
            outputs += [dict(zip(("utterance_id", *found), row)) for row in zip(ids, *found.values())]
            progress.update(len(ids))
    for rows in scored.values():
        rows.sort(key=lambda row: row.utterance_id)
    return scored, sorted(outputs, key=lambda row: row["utterance_id"])


def _texts(batch: Mapping, name: str) -> list[str]:
    return [item.decode("utf-8") for item in batch[name]]


def _print_summary(metrics: Mapping, config: EvaluateConfig) -> None:
    for group, rates in {"": metrics, **metrics.get("by_group", {})}.items():
        for measure in (name for name in _PRINTED if name in rates):
            label = " ".join(filter(None, (group, report.format_name(measure))))
            print(f"{label}: {report.format_rate(rates[measure])}, {rates[measure]['errors']} errors")
    if metrics.get("num_utterances_of_unknown_speakers"):
        print(report.describe_speakers(metrics))
    print(f"report: {os.path.join(config.output_dir, report.REPORT_FILE)}")


def _compare(config: EvaluateConfig) -> None:
    report.create_output_dir(config.output_dir)
    found = comparison.compare(config.compare)
    comparison.write(found, config.output_dir)
    print(*found, f"comparison: {os.path.join(config.output_dir, comparison.FILE)}", sep="\n")


def main(config: EvaluateConfig) -> None:
    tf.get_logger().setLevel("ERROR")
    if config.compare:
        return _compare(config)
    _print_summary(evaluate(config), config)


if __name__ == "__main__":
    program.run(main, EvaluateConfig)
