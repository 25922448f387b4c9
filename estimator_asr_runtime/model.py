"""An exported model: graphs, vocabularies and n-gram models, checked against each other."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np

from estimator_asr_runtime import backends, errors, model_json, ngrams

UNKNOWN, UNKNOWN_ID = "<unk>", 0


@dataclasses.dataclass(frozen=True)
class Model:
    """All that recognition needs; the parts of a language model are empty without one."""

    path: str
    settings: model_json.ModelJson
    acoustic: backends.Graph
    decoder: Optional[backends.Graph]  # of attention
    language: Optional[backends.Graph]
    tokens: tuple[str, ...]
    characters: tuple[str, ...]
    language_ids: Mapping[str, int]  # of the tokens of the language model
    acoustic_ngram: Optional[ngrams.BackOffArrays]
    language_ngram: Optional[ngrams.BackOffArrays]

    @property
    def blank_id(self) -> int:
        """The last class of the acoustic model."""
        return len(self.tokens)


def load(directory: str, num_threads: int = 0) -> Model:
    """Loads a model directory and runs its graphs once on little data.

    Args:
        directory: with model.json.
        num_threads: of each graph; 0: as the library chooses.

    Raises:
        errors.UserError: a file is missing, damaged or does not fit the others, or the library of the graphs
            is not installed.
    """
    settings = model_json.load(directory)
    make, suffix = backends.BACKENDS[settings.format], backends.SUFFIXES[settings.format]

    def open_graph(name: str, is_needed: bool):
        return make(_find(directory, settings, name + suffix), num_threads) if is_needed else None

    def read_ngram(name: str, decode, tokens):
        is_needed = decode is not None and decode.ngram_weight > 0
        return ngrams.load(_find(directory, settings, name), len(tokens)) if is_needed else None

    tokens = _read_tokens(_find(directory, settings, "tokens.txt"))
    characters, spoken = (), ()
    if settings.language:
        names = "characters.txt", "language_tokens.txt"
        characters, spoken = (_read_tokens(_find(directory, settings, name)) for name in names)
    model = Model(
        directory,
        settings,
        open_graph("acoustic", True),
        open_graph("decoder", settings.acoustic.attention_weight > 0),
        open_graph("language", settings.language is not None),
        tokens,
        characters,
        {token: index for index, token in enumerate(spoken)},
        read_ngram("acoustic_ngram.npz", settings.acoustic, tokens),
        read_ngram("language_ngram.npz", settings.language, characters),
    )
    check_graphs(model)
    return model


def check_graphs(model: Model) -> None:
    """Runs each graph once, on a moment of silence and one token.

    Raises errors.UserError if an output is missing or has another shape than the vocabularies ask for.
    """
    num_samples = max(model.settings.least_samples, model.settings.sample_rate // 2)
    found = model.acoustic.run({"waveform": np.zeros([1, num_samples], np.float32)})
    _check(model, "acoustic", found, {"log_probs": (1, None, model.blank_id + 1)})
    token = {"token_ids": np.zeros([1, 1], np.int32), "num_tokens": np.ones(1, np.int32)}
    if model.decoder:
        _check(model, "acoustic", found, {"encoding": (1, None, None)})
        scored = model.decoder.run({"encoding": found["encoding"], **token})
        _check(model, "decoder", scored, {"scores": (1,)})
    if model.language:
        shape = (1, 1, None)
        _check(model, "language", model.language.run(token), {"characters": shape, "log_probs": shape})


def _check(model: Model, graph: str, outputs: Mapping, shapes: Mapping[str, Sequence]) -> None:
    """Compares shapes, of which None is any size."""
    for name, shape in shapes.items():
        where = f"{model.path}: output {name} of the {graph} graph"
        if name not in outputs:
            raise errors.UserError(
                f"{where} is missing, expected it beside {', '.join(outputs)}; export again"
            )
        got = outputs[name].shape
        if len(got) != len(shape) or any(want not in (None, each) for want, each in zip(shape, got)):
            want = ", ".join("any" if each is None else str(each) for each in shape)
            raise errors.UserError(f"{where} has the shape {list(got)}, expected [{want}]; export again")


def _find(directory: str, settings: model_json.ModelJson, name: str) -> str:
    path = os.path.join(directory, name)
    if name not in settings.files:
        raise errors.UserError(f"{path}: is not among the files of {model_json.FILE}; export again")
    return path


def _read_tokens(path: str) -> tuple[str, ...]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            tokens = tuple(file.read().removesuffix("\n").split("\n"))
    except UnicodeDecodeError as error:
        raise errors.UserError(f"{path}: byte {error.start} is not UTF-8; export again") from error
    if tokens[UNKNOWN_ID] != UNKNOWN:
        raise errors.UserError(f"{path}: first line is {tokens[0]!r}, expected {UNKNOWN}; export again")
    return tokens
