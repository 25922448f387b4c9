"""Adds formats to a version of an export: VERSION/litert/, VERSION/onnx/."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Optional

from absl import logging

from estimator_asr.exporting import sample
from estimator_asr.exporting.formats import agreement, bundle, parts
from estimator_asr.saved_model import export_info, trained_model
from tfrecord_builder import errors


def check(
    names: Sequence[str], acoustic: trained_model.TrainedModel, utterances: Sequence[sample.Utterance]
) -> None:
    """Raises errors.UserError if formats cannot be written or compared, before anything is."""
    for name in names:
        check_installed(name)
    if names and acoustic.model.decode.whisper_weight:
        raise errors.UserError(
            f"{acoustic.model.path}: searches with Whisper's decoder, expected none for "
            f"--format={','.join(names)}; pass --nowhisper_decoder"
        )
    if names and all(each.waveform is None for each in utterances):
        raise errors.UserError(
            f"export: no recording of the split is at hand, expected some for --format={','.join(names)}: a "
            "format is written only if it recognises as the SavedModel does; pass --data_dir of a corpus "
            "that is in its place"
        )


def check_installed(name: str) -> None:
    """Raises errors.UserError if the converter of a format, or what runs it, is not installed."""
    try:
        for module in bundle.CONVERTERS[name].MODULES:
            importlib.import_module(module)
    except ImportError as error:
        raise errors.UserError(
            f"export: {error.name} cannot be imported ({error}), expected it for --format={name}; run "
            "pip install 'estimator-asr[formats]'"
        ) from error


def add(
    version_dir: str,
    names: Sequence[str],
    weights: str,
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    info: export_info.ExportInfo,
    utterances: Sequence[sample.Utterance],
) -> None:
    """Writes each format beside the SavedModel of a version, and compares it with that.

    Raises:
        errors.UserError: it cannot be converted, or recognises otherwise; the version is of no use then.
    """
    built = parts.build(acoustic, language) if names else []
    spoken = [each for each in utterances if each.waveform is not None]
    for name in names:
        directory = os.path.join(version_dir, name)
        bundle.write(directory, name, weights, built, acoustic, language, info)
        compared = agreement.compare(version_dir, name, weights, spoken)
        compared.save(version_dir)
        logging.info("%s", compared)
