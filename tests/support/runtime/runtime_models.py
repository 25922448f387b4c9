"""Models for tests of estimator_asr_runtime: settings, graphs in plain Python, and model directories."""

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from estimator_asr_runtime import model as model_lib
from estimator_asr_runtime import model_json

TOKENS = ("<unk>", "ni3", "hao3", "A")
CHARACTERS = ("<unk>", "你", "好", "号")
DECODE = {
    "decoding": "beam",
    "beam_width": 4,
    "candidates": 3,
    "skipped_blank": 1.0,
    "ngram_weight": 0.0,
    "token_bonus": 0.0,
    "attention_weight": 0.0,
    "language_weight": 0.0,
    "confidence_scale": 1.0,
    "confidence_offset": 0.0,
}
OTHERS = ("layout", "acoustic", "language")  # fields of model.json that are not passed to ModelJson unchanged


def make_decode(**changes) -> model_json.Decode:
    return model_json.Decode(**{**DECODE, **changes})


def make_values(**changes) -> dict:
    """Returns the fields of model.json, except its digest."""
    return {
        "layout": 1,
        "format": "onnx",
        "sample_rate": 16000,
        "max_seconds": 2,
        "min_samples": 400,
        "token_type": "syllable",
        "output_seconds": 0.04,
        "acoustic": DECODE,
        "language": None,
        "files": {},
        **changes,
    }


def write(directory, files: Mapping[str, bytes], **changes) -> str:
    """Writes a model directory; returns its path."""
    listed = {}
    for name, content in files.items():
        (directory / name).write_bytes(content)
        listed[name] = {"num_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    values = make_values(files=listed, **changes)
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    (directory / "model.json").write_text(json.dumps({**values, "sha256": digest}), encoding="utf-8")
    return str(directory)


class Graph:
    """A graph that always returns the outputs passed to it, and records its inputs."""

    def __init__(self, **outputs):
        self.outputs, self.inputs = outputs, []

    def run(self, inputs):
        self.inputs.append(inputs)
        return self.outputs


class LanguageGraph:
    """A graph that converts ni3 to 你, hao3 to 好 (0.75) or 号 (0.25), and any other token to <unk>."""

    def run(self, inputs):
        ids = inputs["token_ids"]
        characters = np.array([[0, 0], [1, 0], [2, 3]], np.int32)[ids]
        log_probs = np.array([[0, -1e9], [0, -1e9], np.log([0.75, 0.25])], np.float32)[ids]
        return {"characters": characters, "log_probs": log_probs}


def make_log_probs(frames, most: float = 0.9) -> np.ndarray:
    """Returns float32 [1, num_frames, 5]; each frame has one likely class, and class 4 is the blank."""
    probs = np.full([len(frames), len(TOKENS) + 1], (1 - most) / len(TOKENS), np.float32)
    probs[np.arange(len(frames)), frames] = most
    return np.log(probs)[None]


def make_model(log_probs: np.ndarray, language=None, decoder=None, **changes) -> model_lib.Model:
    """Returns a model with TOKENS and CHARACTERS whose acoustic graph always returns log_probs.

    `changes` are fields of model.json; the fields in `acoustic` replace those in DECODE.
    """
    if language:
        changes = {"language": DECODE, **changes}
    values = make_values(**changes)
    settings = model_json.ModelJson(
        **{name: value for name, value in values.items() if name not in OTHERS},
        acoustic=make_decode(**values["acoustic"]),
        language=values["language"] and model_json.Decode(**values["language"]),
    )
    ids = {token: index for index, token in enumerate(TOKENS[:3])}  # the language model lacks the letter
    acoustic = Graph(log_probs=log_probs, encoding=np.zeros([1, log_probs.shape[1], 2], np.float32))
    characters = CHARACTERS if language else ()
    return model_lib.Model("m", settings, acoustic, decoder, language, TOKENS, characters, ids, None, None)
