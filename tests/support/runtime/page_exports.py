"""Exports of tiny models as ONNX, and the folders of their pages; needs TensorFlow and ONNXRUNTIME_WEB."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os

import numpy as np
import tiny_models

from estimator_asr.decoding.ngrams import back_off, kneser_ney
from estimator_asr.experiment import back_off_arrays
from estimator_asr.exporting import sample
from estimator_asr.exporting.formats import bundle
from estimator_asr.exporting.saved_model import saved_model_writer, trained_model
from estimator_asr_runtime import page

LIBRARY = os.environ.get("ONNXRUNTIME_WEB", "")
WAVEFORMS = [tiny_models.make_waveform(4000 + 7000 * i, seed=i) for i in range(4)]
INITIALS_AND_FINALS = ("<unk>", "h", "ao3", "n", "i3", "A")  # as many tokens as in tiny_models.TOKENS


def export(directory: str, with_ngrams: bool = False, with_marks: bool = False, **decode) -> str:
    """Exports models with random weights; returns the directory of the ONNX files."""
    acoustic, language = os.path.join(directory, "acoustic"), os.path.join(directory, "language")
    tiny_models.make_acoustic_model(acoustic)
    tiny_models.make_language_model(language, tiny_models.OTHER_TOKENS)
    weight = 0.6 if with_ngrams else 0.0
    models = (
        _open(acoustic, tiny_models.TOKENS, weight, decode),
        _open(language, tiny_models.CHARACTERS, weight, {}),
    )
    punctuation = _make_punctuation_model(os.path.join(directory, "punctuation")) if with_marks else None
    utterances = [sample.ParityUtterance("u", np.zeros([1, 20], np.float32), each) for each in WAVEFORMS]

    def complete(version_dir, info):
        bundle.add(version_dir, ["onnx"], "float32", *models, info, utterances, punctuation)
        return info

    export_dir = os.path.join(directory, "export")
    return os.path.join(saved_model_writer.write(*models, export_dir, complete, punctuation), "onnx")


def write_page(export_dir: str, directory: str) -> str:
    page.write(export_dir, LIBRARY, directory)
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


def _make_punctuation_model(path: str) -> trained_model.TrainedModel:
    tiny_models.make_punctuation_model(path)
    return _open(path, tiny_models.CHARACTERS, 0.0, {"pause_weight": 9.0, "pause_offset": 0.05})


def _open(path: str, tokens, ngram_weight: float, decode) -> trained_model.TrainedModel:
    trained = trained_model.open_trained_model(path)
    # Random weights have many hypotheses of almost one score: none is to be at the edge of the beam.
    settings = {"beam_width": 40, "ngram_weight": ngram_weight, **decode}
    changes = {
        "decode": dataclasses.replace(trained.model.decode, **settings),
        "ngram": _make_ngram(tokens) if ngram_weight else None,
    }
    return trained._replace(model=dataclasses.replace(trained.model, **changes))


def _make_ngram(tokens) -> back_off_arrays.BackOffArrays:
    """A 3-gram model of random text."""
    words = np.array(tokens.tokens[1:])
    lines = words[np.random.default_rng(0).geometric(0.4, [200, 6]) % len(words)]
    estimated = kneser_ney.estimate(kneser_ney.encode(lines), 3).model
    return back_off.compile_model(estimated, tokens.tokens, "random")
