"""Exports of tiny models in other formats, and the pages made from them; needs TensorFlow.

Pages also need onnxruntime-web, whose directory is in the environment variable ONNXRUNTIME_WEB.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Optional

import numpy as np
import tiny_models

from estimator_asr.decoding.ngrams import back_off, kneser_ney
from estimator_asr.experiment import back_off_arrays
from estimator_asr.exporting import sample
from estimator_asr.exporting.formats import bundle
from estimator_asr.exporting.saved_model import saved_model_writer, trained_model
from estimator_asr_runtime import page

FORMATS = ["litert", "onnx"]
WAVEFORMS = [tiny_models.make_waveform(4000 + 7000 * i, seed=i) for i in range(4)]
UTTERANCES = [
    sample.ParityUtterance(f"u{i}", np.zeros([1, 20], np.float32), each) for i, each in enumerate(WAVEFORMS)
]
INITIALS_AND_FINALS = ("<unk>", "h", "ao3", "n", "i3", "A")  # the same number of tokens as tiny_models.TOKENS


def make_ngram(tokens) -> back_off_arrays.BackOffArrays:
    """Estimates a 3-gram model from random text."""
    words = np.array(tokens.tokens[1:])
    lines = words[np.random.default_rng(0).geometric(0.4, [200, 6]) % len(words)]
    estimated = kneser_ney.estimate(kneser_ney.encode(lines), 3).model
    return back_off.compile_model(estimated, tokens.tokens, "random")


def open_model(path, ngram=None, **decode) -> trained_model.TrainedModel:
    trained = trained_model.open_trained_model(str(path))
    # With random weights, many scores are almost equal; the beam is wide so that no text is at its edge.
    decode = dataclasses.replace(trained.model.decode, **{"beam_width": 40, **decode})
    return trained._replace(model=dataclasses.replace(trained.model, decode=decode, ngram=ngram))


def export(
    directory,
    names: Sequence[str],
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel] = None,
    punctuation: Optional[trained_model.TrainedModel] = None,
    weights: str = "float32",
) -> str:
    """Exports models to directory/export in the named formats; returns the path of the version."""

    def complete(version_dir, info):
        formats = bundle.add(version_dir, names, weights, acoustic, language, info, UTTERANCES, punctuation)
        return dataclasses.replace(info, formats={name: vars(each) for name, each in formats.items()})

    export_dir = os.path.join(directory, "export")
    return saved_model_writer.write(acoustic, language, export_dir, complete, punctuation)


def export_onnx(directory: str, with_ngrams: bool = False, with_marks: bool = False, **decode) -> str:
    """Exports models with random weights; returns the directory of the ONNX files."""
    names = [os.path.join(directory, name) for name in ("acoustic", "language", "punctuation")]
    tiny_models.make_acoustic_model(names[0])
    tiny_models.make_language_model(names[1], tiny_models.OTHER_TOKENS)
    ngrams = map(make_ngram, (tiny_models.TOKENS, tiny_models.CHARACTERS)) if with_ngrams else (None, None)
    weight = 0.6 if with_ngrams else 0.0
    settings = ({"ngram_weight": weight, **decode}, {"ngram_weight": weight})
    models = [open_model(name, ngram, **each) for name, ngram, each in zip(names, ngrams, settings)]
    if with_marks:
        tiny_models.make_punctuation_model(names[2])
        models.append(open_model(names[2], pause_weight=9.0, pause_offset=0.05))
    return os.path.join(export(directory, ["onnx"], *models), "onnx")


def write_page(export_dir: str, directory: str) -> str:
    page.write(export_dir, os.environ.get("ONNXRUNTIME_WEB", ""), directory)
    return directory


def speak_initials_and_finals(export_dir: str) -> None:
    """Replaces the tokens of an export."""
    content = "".join(f"{token}\n" for token in INITIALS_AND_FINALS).encode()
    with open(os.path.join(export_dir, "tokens.txt"), "wb") as file:
        file.write(content)
    path = os.path.join(export_dir, "model.json")
    with open(path, encoding="utf-8") as file:
        values = json.load(file)
    del values["sha256"]
    values["token_type"] = "initial_final"
    digest = {"num_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    values["files"]["tokens.txt"] = digest
    sha256 = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**values, "sha256": sha256}, file)
