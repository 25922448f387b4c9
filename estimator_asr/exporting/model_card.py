"""Writes the model card, which describes a model, its data, its error rates and its licence.

Based on Mitchell et al., "Model cards for model reporting", FAT* 2019, section 4.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from estimator_asr.exporting.saved_model import export_info
from estimator_asr.scoring import punctuation_scores, utterances
from estimator_asr.scoring.reports import formats, report, scored_split
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

FILE = os.path.join("assets.extra", "model_card.md")
_NO_DATA = "Not stated, because the model was exported without `--data_dir`."
_OF_DATA = (
    "The export was compared with the trained models on these data directories. The models were trained on "
    "the train split of the directories passed to `train`, which may be different. The training text of the "
    "language model is not listed."
)
_NO_RATES = "Not stated. `evaluate --saved_model` measures error rates; `export --report_dir` adds them here."


def read_metrics(report_dir: str) -> dict:
    """Reads a report's metrics.json.

    Raises errors.UserError if the file is missing or was not written by evaluate.
    """
    path = os.path.join(report_dir, report.METRICS_FILE)
    try:
        values = config_json.parse(files.read_text(path))
        if _describe_rates([values]) == _NO_RATES:
            raise ValueError("the file contains no error rate")
        return values
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.UserError(
            f"export: --report_dir={report_dir}: metrics.json cannot be read ({type(error).__name__}: "
            f"{error}); pass the --output_dir of an evaluation"
        ) from error


def check_reports(reports: Mapping[str, Mapping], version_dir: str, checkpoints: Sequence[str]) -> None:
    """Raises errors.UserError if a report is on other checkpoints or on an export of other models.

    Args:
        reports: contents of each report's metrics.json, keyed by --report_dir.
        version_dir: path of the new version, whose export.json already exists.
        checkpoints: paths of the exported checkpoints.
    """
    for directory, values in reports.items():
        checkpoint, model = str(values.get("checkpoint") or ""), str(values.get("model"))
        is_checkpoint = checkpoint and os.path.realpath(checkpoint) in map(os.path.realpath, checkpoints)
        if not is_checkpoint and not _are_equal(model, version_dir):
            raise errors.UserError(
                f"export: --report_dir={directory} is a report on {checkpoint or model} instead of "
                f"{' or '.join(checkpoints)} (or an export of the same models); evaluate the exported "
                "models, and pass the new report"
            )


def _are_equal(*version_dirs: str) -> bool:
    """Returns True if two versions have the same weights and decoding settings."""
    try:
        infos = [export_info.load(path) for path in version_dirs]
    except errors.UserError:
        return False  # the path is a model directory or a deleted version
    weights = (
        {name: file for name, file in info.files.items() if name.startswith("variables/")} for info in infos
    )
    one, other = (
        (info.acoustic, info.language, info.punctuation, files) for info, files in zip(infos, weights)
    )
    return one == other


def write(
    version_dir: str,
    info: export_info.ExportInfo,
    data: Mapping[str, dataset_info.DatasetInfo],
    metrics: Sequence[Mapping],
    licence: str,
    parity: str,
) -> None:
    """Writes the model card to a version.

    Args:
        version_dir, info: path of the version, and contents of its export.json.
        data: DatasetInfo of the directories on which the export was compared with its models, by path.
        metrics: contents of each report's metrics.json.
        licence, parity: the licence, or ""; and a sentence about how well the export agrees with its models.
    """
    sections = {
        "Model": _describe_model(info, parity),
        "Data": _describe_data(data),
        "Error rates": _describe_rates(metrics),
        "Licence": licence or "Not stated. `export --licence` adds the licence here.",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    with open(os.path.join(version_dir, FILE), "w", encoding="utf-8") as file:
        file.write(f"# Model card\n\n{body}\n")


def _describe_model(info: export_info.ExportInfo, parity: str) -> str:
    models = {"an acoustic": info.acoustic, "a language": info.language, "a punctuation": info.punctuation}
    steps = [
        f"{name} model trained for {model.global_step:,} steps" for name, model in models.items() if model
    ]
    output = "hanzi" if info.language else f"tokens ({info.token_type})"
    used = " and ".join(filter(None, [", ".join(steps[:-1]), steps[-1]]))
    settings = info.acoustic.decode.items()
    decoding = ", ".join(f"{name} {value}" for name, value in settings if value not in ("0.0", ""))
    lines = [
        f"Converts speech at {info.frontend.sample_rate} Hz to {output}, using {used}.",
        f"Decoding settings of the acoustic model: {decoding or 'greedy'}.",
    ]
    if info.punctuation:
        pauses = (f"{name} {info.punctuation.decode[name]}" for name in ("pause_weight", "pause_offset"))
        lines.append(f"Weight of pauses in the choice of marks: {', '.join(pauses)}.")
    warning = "Error rates may be higher for rooms, microphones, accents and subjects other than those below."
    return "\n".join([*lines, parity, warning])


def _describe_data(data: Mapping[str, dataset_info.DatasetInfo]) -> str:
    rows = [
        (
            _name(path),
            name,
            f"{split.seconds / 3600:.2f}",
            f"{split.num_utterances:,}",
            f"{split.num_speakers:,}",
        )
        for path, info in data.items()
        for name, split in info.splits.items()
    ]
    table = _table(("data", "split", "hours", "utterances", "speakers"), rows)
    return f"{_OF_DATA}\n\n{table}" if rows else _NO_DATA


def _describe_rates(metrics: Sequence[Mapping]) -> str:
    rows = [
        (
            _name(values["data"]),
            values["split"],
            formats.format_name(name),
            formats.format_rate(rate),
            f"{rate['errors']:,}" if "errors" in rate else "",
            f"{number:,}",
        )
        for values in metrics
        for name, rate, number in _list_rates(values)
    ]
    return _table(("data", "split", "measure", "rate", "errors", "utterances"), rows) if rows else _NO_RATES


def _list_rates(values: Mapping) -> Iterator[tuple[str, Mapping, int]]:
    """Yields each rate's name, the rate itself, and the number of utterances that it was measured on."""
    marks, key = values.get("marks", values), punctuation_scores.COMMAS_STOPS_QUESTIONS
    for name in filter(values.__contains__, utterances.MEASURES):
        yield name, values[name], values["num_utterances"]
    if scored_split.WRITTEN_FORM in values:
        yield scored_split.WRITTEN_FORM, values[scored_split.WRITTEN_FORM], marks["num_utterances"]
    if key in marks:
        yield f"F1 of {key}", {**marks[key], "rate": marks[key]["f1"]}, marks["num_utterances"]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _name(paths: str) -> str:
    return ", ".join(os.path.basename(os.path.normpath(path)) for path in paths.split(","))
