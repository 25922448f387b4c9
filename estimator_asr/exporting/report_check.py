"""Checks that the reports for the model card are those of the models that are exported."""

from __future__ import annotations

import os
from collections.abc import Mapping

from estimator_asr.saved_model import export_info, saved_model_writer
from tfrecord_builder import errors

_WEIGHTS = "variables/"


def check(reports: Mapping[str, Mapping], written: saved_model_writer.Written) -> None:
    """Compares the checkpoint of each report, or the weights of the export that it is of.

    Args:
        reports: contents of metrics.json by --report_dir.
        written: the version, with export.json.

    Raises:
        errors.UserError: a report is of another model.
    """
    checkpoints = [each.checkpoint for each in (written.acoustic, written.language) if each]
    for directory, values in reports.items():
        checkpoint, model = values.get("checkpoint"), values.get("model")
        if not _is_checkpoint(checkpoint, checkpoints) and not _is_equal_export(model, written.path):
            raise errors.UserError(
                f"export: --report_dir={directory}: model is {checkpoint or model}, expected "
                f"{' or '.join(checkpoints)}, or an export of the same models; evaluate these, and give "
                "the new report"
            )


def _is_checkpoint(found: object, checkpoints: list[str]) -> bool:
    return bool(found) and os.path.realpath(str(found)) in map(os.path.realpath, checkpoints)


def _is_equal_export(version_dir: object, written_dir: str) -> bool:
    """Returns whether the report is of a version with the same weights and settings of decoding."""
    try:
        infos = [export_info.load(str(path)) for path in (version_dir, written_dir)]
    except errors.UserError:
        return False  # a model directory, or a version that is gone
    return len({_describe(info) for info in infos}) == 1


def _describe(info: export_info.ExportInfo) -> str:
    weights = {name: each.sha256 for name, each in info.files.items() if name.startswith(_WEIGHTS)}
    return repr((info.acoustic, info.language, sorted(weights.items())))
