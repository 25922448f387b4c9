"""An exported model: graphs, vocabularies and n-gram models."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_asr_runtime import backends, marking, model_json, ngrams, written_form

UNKNOWN_ID = 0  # token id of <unk>


@dataclasses.dataclass(frozen=True)
class Model:
    """Everything that recognition needs; the fields for missing parts are None or empty."""

    path: str
    settings: model_json.ModelJson
    acoustic: backends.Graph
    decoder: Optional[backends.Graph]  # attention decoder
    language: Optional[backends.Graph]
    tokens: tuple[str, ...]
    characters: tuple[str, ...]
    language_ids: Mapping[str, int]  # token -> id in the language model
    acoustic_ngram: Optional[ngrams.NgramScorer]
    language_ngram: Optional[ngrams.NgramScorer]
    punctuation: Optional[marking.Punctuator] = None


def find(path: str, allowed: Sequence[str] = model_json.FORMATS) -> str:
    """Returns a format's directory; `path` is that directory, a version, or an export.

    In an export, the newest version is used. If several allowed formats exist, the first one whose library is
    installed is chosen. If no allowed format exists, `path` or the newest version is returned.
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
    """Loads the model in a directory that contains model.json.

    `num_threads` is the number of threads per graph; if it is 0, the library chooses the number.

    Raises errors.UserError if a file is missing or damaged, or the library that runs the graphs is not
    installed.
    """
    settings = model_json.load(directory)
    graphs = [
        _open_graph(directory, settings, name, num_threads) for name in ("acoustic", "decoder", "language")
    ]
    tokens, characters, language_tokens = (
        _read_tokens(directory, settings, name) for name in ("tokens", "characters", "language_tokens")
    )
    language_ids = {token: index for index, token in enumerate(language_tokens)}
    scorers = (_read_ngram(directory, settings, part) for part in ("acoustic", "language"))
    punctuation = _open_punctuation(directory, settings, num_threads) if settings.punctuation else None
    return Model(directory, settings, *graphs, tokens, characters, language_ids, *scorers, punctuation)


def _open_graph(directory: str, settings: model_json.ModelJson, name: str, num_threads: int):
    backend = backends.BACKENDS[settings.format]
    file = name + backend.suffix
    return backend.graph(os.path.join(directory, file), num_threads) if file in settings.files else None


def _read_tokens(directory: str, settings: model_json.ModelJson, name: str) -> tuple[str, ...]:
    file = f"{name}.txt"
    if file not in settings.files:
        return ()
    with open(os.path.join(directory, file), encoding="utf-8", newline="") as text:
        return tuple(text.read().removesuffix("\n").split("\n"))


def _read_ngram(directory: str, settings: model_json.ModelJson, part: str) -> Optional[ngrams.NgramScorer]:
    file = f"{part}_ngram.npz"
    if file not in settings.files:
        return None
    arrays = ngrams.load(os.path.join(directory, file))
    return ngrams.NgramScorer(arrays, getattr(settings, part).ngram_weight)


def _open_punctuation(directory: str, settings: model_json.ModelJson, num_threads: int) -> marking.Punctuator:
    graph = _open_graph(directory, settings, "punctuation", num_threads)
    characters = _read_tokens(directory, settings, "punctuation_characters")
    ids = {character: index for index, character in enumerate(characters)}
    form = written_form.load(os.path.join(directory, written_form.FILE))
    return marking.Punctuator(graph, ids, settings.punctuation, settings.joining, form)
