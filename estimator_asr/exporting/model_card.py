"""The model card: what the model is, what it learned from, how often it is wrong, and its licence.

After Mitchell et al., "Model cards for model reporting", FAT* 2019, section 4.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

from estimator_asr.saved_model import export_info
from estimator_asr.scoring import utterances
from estimator_asr.scoring.reports import formats, report
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info

FILE = os.path.join("assets.extra", "model_card.md")
_NO_DATA = "Not stated: the model was exported without `--data_dir`."
_OF_DATA = (
    "The directories that the export was compared on; models learn from the split train of those that "
    "`train` was given. The text of the language model is not listed."
)
_NO_RATES = "Not stated: `evaluate --saved_model` measures them; `export --report_dir` enters them here."


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the card says that is not in export.json."""

    data: Mapping[str, dataset_info.DatasetInfo]  # by directory
    metrics: Sequence[Mapping]  # contents of metrics.json
    licence: str  # "" if none is stated
    parity: str  # one sentence


def read_metrics(report_dir: str) -> dict:
    """Reads metrics.json of a report.

    Raises:
        errors.UserError: it is missing or is not what evaluate writes.
    """
    path = os.path.join(report_dir, report.METRICS_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        if _describe_rates([values]) == _NO_RATES:
            raise ValueError("it has no error rate")
        return values
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.UserError(
            f"export: --report_dir={report_dir}: metrics.json cannot be read ({type(error).__name__}: "
            f"{error}), expected a report of evaluate; give its --output_dir"
        ) from error


def write(version_dir: str, info: export_info.ExportInfo, facts: Facts) -> None:
    """Writes the card into a version."""
    with open(os.path.join(version_dir, FILE), "w", encoding="utf-8") as file:
        file.write(_render(info, facts))


def _render(info: export_info.ExportInfo, facts: Facts) -> str:
    sections = {
        "Model": _describe_model(info, facts.parity),
        "Data": _describe_data(facts.data),
        "Error rates": _describe_rates(facts.metrics),
        "Licence": facts.licence or "Not stated: `export --licence` enters it here.",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return f"# Model card\n\n{body}\n"


def _describe_model(info: export_info.ExportInfo, parity: str) -> str:
    models = {"acoustic": info.acoustic, "language": info.language}
    steps = [f"{name} model of {each.global_step:,} steps" for name, each in models.items() if each]
    written = "hanzi" if info.language else f"tokens ({info.token_type})"
    decoding = ", ".join(
        f"{name} {value}" for name, value in info.acoustic.decode.items() if value not in ("0.0", "")
    )
    lines = [
        f"Speech to {written}, at {info.frontend.sample_rate} Hz: {' and '.join(steps)}.",
        f"Decoding of the acoustic model: {decoding or 'greedy'}.",
        parity,
        "Speech of other rooms, microphones, accents and subjects than below may be recognised worse.",
    ]
    return "\n".join(lines)


def _describe_data(data: Mapping[str, dataset_info.DatasetInfo]) -> str:
    rows = [
        (os.path.basename(os.path.normpath(path)), name, split)
        for path, info in data.items()
        for name, split in info.splits.items()
    ]
    if not rows:
        return _NO_DATA
    cells = [
        (path, name, f"{split.seconds / 3600:.2f}", f"{split.num_utterances:,}", f"{split.num_speakers:,}")
        for path, name, split in rows
    ]
    table = _table(("data", "split", "hours", "utterances", "speakers"), cells)
    return f"{_OF_DATA}\n\n{table}"


def _describe_rates(metrics: Sequence[Mapping]) -> str:
    rows = [
        (
            _name(values["data"]),
            values["split"],
            formats.format_name(name),
            formats.format_rate(values[name]),
            f"{values[name]['errors']:,}",
            f"{values['num_utterances']:,}",
        )
        for values in metrics
        for name in utterances.MEASURES
        if name in values
    ]
    return _table(("data", "split", "measure", "rate", "errors", "utterances"), rows) if rows else _NO_RATES


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _name(paths: str) -> str:
    return ", ".join(os.path.basename(os.path.normpath(path)) for path in paths.split(","))
