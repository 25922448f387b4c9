"""Adds other formats to a version, in VERSION/onnx/ and VERSION/litert/, for estimator_asr_runtime.

acoustic, decoder, language, punctuation .onnx or .tflite    the graphs built by parts.py
tokens.txt, characters.txt, language_tokens.txt, punctuation_characters.txt
                                        vocabularies; an id is a line number, counted from 0
acoustic_ngram.npz, language_ngram.npz  n-gram models for the search, if their weights are not 0
written_form.json                       rules for numbers; only with a punctuation model
model.json                              settings, each file's size and sha256, and its own sha256
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from typing import Optional

import numpy as np
from absl import logging

from estimator_asr.experiment import model_directory
from estimator_asr.exporting import sample
from estimator_asr.exporting.formats import agreement, litert, onnx, parts
from estimator_asr.exporting.saved_model import export_info, marking, trained_model
from estimator_asr_runtime import model_json, written_form
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import marks
from tfrecord_builder.program import lazy_tensorflow
from tfrecord_builder.storage import files

CONVERTERS = {"litert": litert, "onnx": onnx}
WEIGHTS = ("float32", "float16", "int8")


def check(
    names: Sequence[str], acoustic: trained_model.TrainedModel, utterances: Sequence[sample.ParityUtterance]
) -> None:
    """Raises errors.UserError, before anything is written, if a format cannot be written or compared."""
    for name in names:
        check_installed(name)
    if names and acoustic.model.decode.whisper_weight:
        raise errors.UserError(
            f"{acoustic.model.path} uses Whisper's decoder, which --format={','.join(names)} "
            "does not support; pass --nowhisper_decoder"
        )
    if names and all(utterance.waveform is None for utterance in utterances):
        raise errors.UserError(
            f"export: none of the split's recordings was found. --format={','.join(names)} needs "
            "recordings to check that the format agrees with the SavedModel. Pass a --data_dir whose "
            "recordings have not been moved."
        )


def check_installed(name: str) -> None:
    """Raises errors.UserError if the converter or the runtime of a format is not installed."""
    try:
        for module in CONVERTERS[name].MODULES:
            importlib.import_module(module)
    except ImportError as error:
        raise errors.UserError(
            f"export: --format={name} needs {error.name}, which cannot be imported ({error}); run "
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
    punctuation: Optional[trained_model.TrainedModel] = None,
) -> dict[str, agreement.Agreement]:
    """Writes each format, compares it with the version's SavedModel, and returns the results by format.

    Raises errors.UserError if a format cannot be written or differs from the SavedModel; the version must
    then be discarded.
    """
    models = acoustic, language, punctuation
    graphs = parts.build(*models) if names else []
    recorded = [utterance for utterance in utterances if utterance.waveform is not None]
    compared = {}
    for name in names:
        write(os.path.join(version_dir, name), name, weights, graphs, *models, info)
        compared[name] = agreement.compare(version_dir, name, weights, recorded)
        logging.info("%s", compared[name])
    return compared


def write(
    directory: str,
    name: str,
    weights: str,
    built: Iterable[parts.Part],
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    punctuation: Optional[trained_model.TrainedModel],
    info: export_info.ExportInfo,
) -> None:
    """Converts the graphs and writes them, along with all other files that recognition needs.

    Raises errors.UserError if a graph cannot be converted.
    """
    os.makedirs(directory)
    for part in built:
        with open(os.path.join(directory, CONVERTERS[name].FILE.format(part.name)), "wb") as file:
            file.write(_convert(name, part, weights))
    acoustic.model.tokens.save(os.path.join(directory, "tokens.txt"))
    _write_ngram(directory, "acoustic", acoustic.model)
    if language:
        language.model.tokens.save(os.path.join(directory, "language_tokens.txt"))
        language.model.characters.save(os.path.join(directory, "characters.txt"))
        _write_ngram(directory, "language", language.model)
    if punctuation:
        punctuation.model.characters.save(os.path.join(directory, "punctuation_characters.txt"))
        shutil.copyfile(written_form.PATH, os.path.join(directory, written_form.FILE))
    values = {"format": name, "weights": weights, "punctuation": punctuation and _describe_marks(punctuation)}
    _write_settings(directory, values, acoustic, language, info)


def _convert(name: str, part: parts.Part, weights: str) -> bytes:
    try:
        with lazy_tensorflow.without_standard_error():
            return CONVERTERS[name].convert(part, weights)
    except Exception as error:  # converters raise exceptions of many types
        reason = " ".join(str(error).split())[:300]
        raise errors.UserError(
            f"export: the {part.name} graph cannot be converted to {name} ({reason}); leave {name} out of "
            "--format"
        ) from error


def _write_ngram(directory: str, name: str, model: model_directory.ModelDirectory) -> None:
    if parts.find_decode(model).ngram_weight:
        np.savez_compressed(os.path.join(directory, f"{name}_ngram.npz"), **vars(model.ngram))


def _describe_marks(punctuation: trained_model.TrainedModel) -> dict:
    decode = punctuation.model.decode
    pauses = {name: getattr(decode, name) for name in ("pause_weight", "pause_offset")}
    return {"marks": marks.MARKS, **pauses, "longest_pause": marking.LONGEST_PAUSE}


def _write_settings(directory, kind, acoustic, language, info) -> None:
    config = acoustic.model.config
    values = {
        "layout": model_json.LAYOUT,
        **kind,
        "sample_rate": config.frontend.sample_rate,
        "max_seconds": info.max_seconds,
        "min_samples": next(n for n in itertools.count() if frontend.num_frames(n, config.frontend)),
        "token_type": config.token_type,
        "output_seconds": config.output_seconds,
        "acoustic": dataclasses.asdict(parts.find_decode(acoustic.model)),
        "language": language and dataclasses.asdict(parts.find_decode(language.model)),
        "files": {
            name: dataclasses.asdict(file) for name, file in export_info.describe_files(directory).items()
        },
    }
    text = json.dumps({**values, "sha256": export_info.digest(values)}, indent=2, ensure_ascii=False)
    files.write_text(os.path.join(directory, model_json.FILE), text + "\n")
