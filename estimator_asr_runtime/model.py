"""An exported model: graphs, vocabularies and n-gram models, checked against each other."""

from __future__ import annotations

import dataclasses
import glob
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
    acoustic_ngram: Optional[ngrams.NgramScorer]
    language_ngram: Optional[ngrams.NgramScorer]


def find(path: str, allowed: Sequence[str] = model_json.FORMATS) -> str:
    """Returns the directory of a format: path, or that in a version, or in the newest version of an export.

    Of several allowed formats the first counts whose library is installed; a path without one is returned.
    """
    if os.path.lexists(os.path.join(path, model_json.FILE)) or not os.path.isdir(path):
        return path
    names = map(os.path.basename, glob.glob(os.path.join(glob.escape(path), "[0-9]*")))
    versions = [int(name) for name in names if name.isdecimal() and name == str(int(name))]
    if versions and not _list_formats(path, allowed):
        path = os.path.join(path, str(max(versions)))
    formats = _list_formats(path, allowed)
    if len(formats) > 1:
        formats = [name for name in formats if backends.is_installed(name)] or formats
    return os.path.join(path, *formats[:1])


def _list_formats(path: str, allowed: Sequence[str]) -> list[str]:
    return [name for name in allowed if os.path.isdir(os.path.join(path, name))]


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
    opener, language = _Opener(directory, settings, num_threads), settings.language
    tokens = opener.read_tokens("tokens.txt")
    characters = opener.read_tokens("characters.txt") if language else ()
    spoken = opener.read_tokens("language_tokens.txt") if language else ()
    model = Model(
        directory,
        settings,
        opener.open_graph("acoustic"),
        opener.open_graph("decoder") if settings.acoustic.attention_weight else None,
        opener.open_graph("language") if language else None,
        tokens,
        characters,
        {token: index for index, token in enumerate(spoken)},
        opener.read_ngram("acoustic_ngram.npz", settings.acoustic, tokens),
        opener.read_ngram("language_ngram.npz", language, characters) if language else None,
    )
    check_graphs(model)
    return model


@dataclasses.dataclass(frozen=True)
class _Opener:
    """Opens the files of a model directory."""

    directory: str
    settings: model_json.ModelJson
    num_threads: int

    def open_graph(self, name: str) -> backends.Graph:
        backend = backends.BACKENDS[self.settings.format]
        return backend.graph(self._find(name + backend.suffix), self.num_threads)

    def read_ngram(self, name: str, decode: model_json.Decode, tokens) -> Optional[ngrams.NgramScorer]:
        if not decode.ngram_weight or decode.decoding == "greedy":
            return None
        return ngrams.NgramScorer(ngrams.load(self._find(name), len(tokens)), decode.ngram_weight)

    def read_tokens(self, name: str) -> tuple[str, ...]:
        path = self._find(name)
        try:
            with open(path, encoding="utf-8", newline="") as file:
                tokens = tuple(file.read().removesuffix("\n").split("\n"))
        except UnicodeDecodeError as error:
            raise errors.UserError(f"{path}: byte {error.start} is not UTF-8; export again") from error
        if tokens[UNKNOWN_ID] != UNKNOWN:
            raise errors.UserError(f"{path}: first line is {tokens[0]!r}, expected {UNKNOWN}; export again")
        return tokens

    def _find(self, name: str) -> str:
        path = os.path.join(self.directory, name)
        if name not in self.settings.files:
            raise errors.UserError(f"{path}: is not among the files of {model_json.FILE}; export again")
        return path


def check_graphs(model: Model) -> None:
    """Runs each graph once, on a moment of silence and one token.

    Raises errors.UserError if an output is missing or has another shape than the vocabularies ask for.
    """
    num_samples = max(model.settings.min_samples, model.settings.sample_rate // 2)
    found = model.acoustic.run({"waveform": np.zeros([1, num_samples], np.float32)})
    _check(model, "acoustic", found, {"log_probs": (1, None, len(model.tokens) + 1)})
    token = {"token_ids": np.zeros([1, 1], np.int32), "num_tokens": np.ones(1, np.int32)}
    if model.decoder:
        _check(model, "acoustic", found, {"encoding": (1, None, None)})
        scored = model.decoder.run({"encoding": found["encoding"], **token})
        _check(model, "decoder", scored, {"scores": (1,)})
    if model.language:
        shape = (1, 1, None)
        found = model.language.run(token)
        _check(model, "language", found, {"characters": shape, "log_probs": shape})
        _check_candidates(model, found["characters"])


def _check_candidates(model: Model, characters: np.ndarray) -> None:
    if characters.dtype.kind != "i" or not characters.size:
        got = f"{characters.dtype}, {characters.shape[2]} of each token"
        raise errors.UserError(
            f"{model.path}: characters of the language graph are {got}, expected one or more integers; "
            "export again"
        )


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
            want = str(list(shape)).replace("None", "any")
            raise errors.UserError(f"{where} has the shape {list(got)}, expected {want}; export again")
