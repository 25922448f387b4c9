"""model.json: what an exported model says besides its graphs, and the digests of its files.

{"layout": 1, "format": "onnx", "sample_rate": 16000, ..., "acoustic": {"decoding": "beam", ...},
 "language": null, "joining": {"separator": "", "rules": []}, "files": {"acoustic.onnx": {"num_bytes": 12345,
 "sha256": "0a1b..."}, ...}, "sha256": "2c3d..."}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Optional

from estimator_asr_runtime import errors

FILE = "model.json"
LAYOUT = 1
FORMATS = ("onnx", "litert")
_AGAIN = "copy the export again, or export again"


@dataclasses.dataclass(frozen=True)
class Decode:
    """How the tokens of an utterance are found; the fields are those of estimator_asr's DecodeConfig."""

    decoding: str  # beam or greedy
    beam_width: int
    candidates: int
    skipped_blank: float
    ngram_weight: float
    token_bonus: float
    attention_weight: float
    language_weight: float
    confidence_scale: float
    confidence_offset: float


class Joining(NamedTuple):
    """How tokens become text: the separator, then regular expressions and replacements in order."""

    separator: str
    rules: tuple[tuple[str, str], ...] = ()

    def join(self, tokens: Iterable[str]) -> str:
        """Returns the text of tokens."""
        text = self.separator.join(tokens)
        for pattern, replacement in self.rules:
            text = re.sub(pattern, replacement, text)
        return text


@dataclasses.dataclass(frozen=True)
class ModelJson:
    """The content of model.json."""

    format: str  # one of FORMATS
    sample_rate: int  # Hz
    max_seconds: int  # of an utterance
    least_samples: int  # fewer make no frame
    token_type: str
    output_seconds: float  # from one frame of log_probs to the next
    acoustic: Decode
    language: Optional[Decode]  # None without a language model
    joining: Joining  # of the transcript
    foreign: str  # a token that the language model lacks is written as it is if this does not match it
    files: Mapping[str, tuple[int, str]]  # bytes and SHA-256 by name


def load(directory: str) -> ModelJson:
    """Reads model.json and compares the files beside it with their digests.

    Raises errors.UserError if model.json or a file is missing, damaged or of another layout.
    """
    path = os.path.join(directory, FILE)
    values = _read(path)
    if values.get("layout") != LAYOUT:
        raise errors.UserError(
            f"{path}: layout is {values.get('layout')}, expected {LAYOUT}; install the release of "
            "estimator-asr-runtime that belongs to the export"
        )
    saved = values.pop("sha256", None)
    if saved != hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest():
        raise errors.UserError(f"{path}: was changed, expected what the export wrote; {_AGAIN}")
    try:
        content = _parse(values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.UserError(f"{path}: {error} is missing or wrong; export again") from error
    if content.format not in FORMATS:
        raise errors.UserError(
            f"{path}: format is {content.format}, expected {' or '.join(FORMATS)}; {_AGAIN}"
        )
    for name, file in content.files.items():
        _check_file(os.path.join(directory, name), *file)
    return content


def _read(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except OSError as error:
        raise errors.UserError(
            f"{path}: {error.strerror}, expected that of an export as ONNX or LiteRT; pass its directory"
        ) from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise errors.UserError(f"{path}: is not JSON; {_AGAIN}") from error
    return values if isinstance(values, dict) else {}


def _parse(values: Mapping) -> ModelJson:
    rules = tuple((pattern, replacement) for pattern, replacement in values["joining"]["rules"])
    made = {
        "acoustic": _parse_decode(values["acoustic"]),
        "language": values["language"] and _parse_decode(values["language"]),
        "joining": Joining(values["joining"]["separator"], rules),
        "files": {name: (each["num_bytes"], each["sha256"]) for name, each in values["files"].items()},
    }
    names = [field.name for field in dataclasses.fields(ModelJson)]
    return ModelJson(**{**{name: values[name] for name in names}, **made})


def _parse_decode(values: Mapping) -> Decode:
    return Decode(**{field.name: values[field.name] for field in dataclasses.fields(Decode)})


def _check_file(path: str, num_bytes: int, sha256: str) -> None:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        problem = f"{error.strerror}, expected a file of the export"
        raise errors.UserError(f"{path}: {problem}; {_AGAIN}") from error
    if len(content) != num_bytes:
        raise errors.UserError(f"{path}: has {len(content)} bytes, expected {num_bytes}; {_AGAIN}")
    if hashlib.sha256(content).hexdigest() != sha256:
        raise errors.UserError(f"{path}: is damaged, its SHA-256 is not that of {FILE}; {_AGAIN}")
