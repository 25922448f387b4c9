"""Adds other formats to a version of an export: VERSION/litert/, VERSION/onnx/."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Optional

from absl import logging

from estimator_asr.exporting import sample
from estimator_asr.exporting.formats import agreement, bundle, parts
from estimator_asr.exporting.saved_model import export_info, trained_model
from tfrecord_builder import errors


def check(
    names: Sequence[str], acoustic: trained_model.TrainedModel, utterances: Sequence[sample.ParityUtterance]
) -> None:
    """Raises errors.UserError if a format cannot be written or compared; runs before anything is written."""
    for name in names:
        check_installed(name)
    if names and acoustic.model.decode.whisper_weight:
        raise errors.UserError(
            f"{acoustic.model.path}: searches with Whisper's decoder, which --format={','.join(names)} "
            "does not support; pass --nowhisper_decoder"
        )
    if names and all(utterance.waveform is None for utterance in utterances):
        raise errors.UserError(
            f"export: no recording of the split was found. --format={','.join(names)} needs recordings, on "
            "which the format must agree with the SavedModel. Pass the --data_dir of a corpus whose audio "
            "was not moved."
        )


def check_installed(name: str) -> None:
    """Raises errors.UserError if the converter or the runtime of a format is not installed."""
    try:
        for module in bundle.CONVERTERS[name].MODULES:
            importlib.import_module(module)
    except ImportError as error:
        raise errors.UserError(
            f"export: {error.name} cannot be imported ({error}), but --format={name} needs it; run "
            "pip install 'estimator-asr[formats]'"
        ) from error


def add(
    version_dir: str,
    names: Sequence[str],
    weights: str,
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    info: export_info.ExportInfo,
    utterances: Sequence[sample.ParityUtterance],
) -> None:
    """Writes each format beside a version's SavedModel, and compares the two.

    Raises:
        errors.UserError: a format cannot be written or differs from the SavedModel; the version must then be
            discarded.
    """
    graphs = parts.build(acoustic, language) if names else []
    recorded = [utterance for utterance in utterances if utterance.waveform is not None]
    for name in names:
        directory = os.path.join(version_dir, name)
        bundle.write(directory, name, weights, graphs, acoustic, language, info)
        compared = agreement.compare(version_dir, name, weights, recorded)
        compared.save(version_dir)
        logging.info("%s", compared)
