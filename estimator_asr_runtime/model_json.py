"""model.json: the settings of an exported model, and the digests of its files.

{"layout": 1, "format": "onnx", "sample_rate": 16000, ..., "acoustic": {"decoding": "beam", ...},
 "language": null, "punctuation": null,
 "files": {"acoustic.onnx": {"num_bytes": 12345, "sha256": "0a1b..."}, ...},
 "sha256": "2c3d..."}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_asr_runtime import backends, errors, joining

FILE = "model.json"
LAYOUT = 1
FORMATS = tuple(backends.BACKENDS)
_AGAIN = "copy the export again, or export the model again"
_OTHER_RELEASE = "install the release of estimator-asr-runtime that matches the export"
_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Decode:
    """Decoding settings; the fields are the same as in estimator_asr's DecodeConfig."""

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


@dataclasses.dataclass(frozen=True)
class Punctuation:
    """Settings for punctuation marks; docs/devices.md explains how pauses count."""

    marks: Sequence[str]  # the mark of each class of the graph; "", which stands for no mark, comes first
    pause_weight: float
    pause_offset: float  # seconds
    longest_pause: float  # seconds


@dataclasses.dataclass(frozen=True)
class ModelJson:
    """The contents of model.json."""

    format: str  # one of FORMATS
    sample_rate: int  # Hz
    max_seconds: int  # maximum length of an utterance
    min_samples: int  # samples in one frame; shorter audio counts as empty
    token_type: str  # a key of joining.JOININGS
    output_seconds: float  # frame shift of log_probs, in seconds
    acoustic: Decode
    language: Optional[Decode]  # None if there is no language model
    files: Mapping[str, Mapping]  # file name -> num_bytes and sha256
    punctuation: Optional[Punctuation] = None  # None if there is no punctuation model

    @property
    def joining(self) -> joining.Joining:
        """The rules for joining the strings of a hypothesis into a transcript."""
        return joining.JOININGS["character" if self.language else self.token_type]

    @property
    def syllable_pattern(self) -> str:
        """Tokens that the language model lacks are kept in the transcript unless they match this pattern."""
        return joining.SYLLABLES[self.token_type] if self.language else ""


def load(directory: str) -> ModelJson:
    """Reads model.json; checks its digest and the digests of the files that it lists.

    A matching digest means that the file has not changed since the export, so its values are trusted.

    Raises errors.UserError if model.json or a file is missing or damaged, or this release cannot read it.
    """
    path = os.path.join(directory, FILE)
    values, is_intact = _read(path)
    if values.get("layout") != LAYOUT:
        layout = str(values.get("layout"))[:100]
        raise errors.UserError(f"{path}: layout is {layout}, expected {LAYOUT}; {_OTHER_RELEASE}")
    if not is_intact:
        raise errors.UserError(f"{path} was changed after the export; {_AGAIN}")
    try:
        content = _parse(values)
    except KeyError as error:
        raise errors.UserError(f"{path} has no field {error}; {_OTHER_RELEASE}") from error
    if content.format not in FORMATS:
        problem = f"format is {str(content.format)[:100]}, expected {' or '.join(FORMATS)}"
        raise errors.UserError(f"{path}: {problem}; {_OTHER_RELEASE}")
    for name, file in content.files.items():
        _check_file(os.path.join(directory, name), **file)
    return content


def _read(path: str) -> tuple[dict, bool]:
    """Returns all fields except sha256, and True if sha256 is the digest of these fields."""
    _check_regular(path)
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        values = values if isinstance(values, dict) else {}
        saved = values.pop("sha256", None)
        return values, saved == hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    except OSError as error:
        raise errors.UserError(
            f"{path}: {error.strerror}; pass an export directory that contains an ONNX or LiteRT model"
        ) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise errors.UserError(f"{path} is not valid JSON; {_AGAIN}") from error


def _parse(values: Mapping) -> ModelJson:
    values = {"punctuation": None, **values}  # exports from earlier releases lack this field
    kinds = {"acoustic": Decode, "language": Decode, "punctuation": Punctuation}
    parts = {part: values[part] and _pick(kind, values[part]) for part, kind in kinds.items()}
    return _pick(ModelJson, {**values, **parts})


def _pick(kind: type, values: Mapping):
    return kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})


def _check_regular(path: str) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.UserError(f"{path} is not a regular file; {_AGAIN}")


def find_digest(path: str) -> str:
    """Returns the SHA-256 of a file, in hexadecimal; raises OSError if it cannot be read."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _check_file(path: str, num_bytes: int, sha256: str) -> None:
    _check_regular(path)
    try:
        size = os.path.getsize(path)
        if size != num_bytes:
            raise errors.UserError(f"{path} has {size} bytes, expected {num_bytes}; {_AGAIN}")
        digest = find_digest(path)
    except OSError as error:
        raise errors.UserError(f"{path}: {error.strerror}; {_AGAIN}") from error
    if digest != sha256:
        raise errors.UserError(
            f"{path} is damaged: its contents do not match the SHA-256 in {FILE}; {_AGAIN}"
        )
