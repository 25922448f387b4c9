"""model.json: what an exported model says besides its graphs, and the digests of its files.

{"layout": 1, "format": "onnx", "sample_rate": 16000, ..., "acoustic": {"decoding": "beam", ...},
 "language": null, "files": {"acoustic.onnx": {"num_bytes": 12345, "sha256": "0a1b..."}, ...},
 "sha256": "2c3d..."}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Optional

from estimator_asr_runtime import backends, errors, joining

FILE = "model.json"
LAYOUT = 1
FORMATS = tuple(backends.BACKENDS)
_AGAIN = "copy the export again, or export again"
_BLOCK_BYTES = 1 << 20
_COUNT, _WEIGHT, _NUMBER = (int, 1, 1_000_000), (float, 0, 1_000_000), (float, -1_000_000, 1_000_000)
# What fields may be: one of these strings, or of a type, at least and at most.
_EXPECTED = {
    "format": FORMATS,
    "sample_rate": (int, 1000, 1_000_000),
    "max_seconds": (int, 1, 3600),
    "least_samples": _COUNT,
    "token_type": tuple(joining.JOININGS),
    "output_seconds": (float, 0.0001, 10),
    "decoding": ("beam", "greedy"),
    "beam_width": _COUNT,
    "candidates": _COUNT,
    "skipped_blank": (float, 1e-9, 1),
    "ngram_weight": _WEIGHT,
    "token_bonus": _NUMBER,
    "attention_weight": _WEIGHT,
    "language_weight": _WEIGHT,
    "confidence_scale": _NUMBER,
    "confidence_offset": _NUMBER,
    "num_bytes": (int, 0, 1 << 50),
}


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
    files: Mapping[str, tuple[int, str]]  # bytes and SHA-256 by name

    @property
    def joining(self) -> joining.Joining:
        """How strings are joined to a transcript."""
        return joining.JOININGS["character" if self.language else self.token_type]

    @property
    def foreign(self) -> str:
        """A token that the language model lacks is written as it is if this does not match it."""
        return joining.SYLLABLES[self.token_type] if self.language else ""


def load(directory: str) -> ModelJson:
    """Reads model.json and compares the files beside it with their digests.

    Raises errors.UserError if model.json or a file is missing, damaged or of another layout.
    """
    path = os.path.join(directory, FILE)
    values, is_intact = _read(path)
    if values.get("layout") != LAYOUT:
        raise errors.UserError(
            f"{path}: layout is {values.get('layout')}, expected {LAYOUT}; install the release of "
            "estimator-asr-runtime that belongs to the export"
        )
    if not is_intact:
        raise errors.UserError(f"{path}: was changed, expected what the export wrote; {_AGAIN}")
    content = _parse(f"{path}: ", values)
    for name, file in content.files.items():
        _check_file(os.path.join(directory, name), *file)
    return content


def _read(path: str) -> tuple[dict, bool]:
    """Returns the fields but sha256, and whether that is their digest."""
    _check_regular(path)
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        values = values if isinstance(values, dict) else {}
        saved = values.pop("sha256", None)
        return values, saved == hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    except OSError as error:
        raise errors.UserError(
            f"{path}: {error.strerror}, expected that of an export as ONNX or LiteRT; pass its directory"
        ) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or too deep
        raise errors.UserError(f"{path}: is not JSON; {_AGAIN}") from error


def _parse(where: str, values: Mapping) -> ModelJson:
    parts = ("acoustic", "language", "files")
    names = [field.name for field in dataclasses.fields(ModelJson) if field.name not in parts]
    chosen = {name: _get(where, values, name) for name in names}
    acoustic = _parse_decode(where, values, "acoustic")
    language = None if values.get("language") is None else _parse_decode(where, values, "language")
    if language and chosen["token_type"] not in joining.SYLLABLES:
        raise _refuse(f"{where}token_type", chosen["token_type"], " or ".join(joining.SYLLABLES))
    listed = _get_object(where, values, "files")
    files = {name: _parse_file(where, name, listed) for name in listed}
    return ModelJson(**chosen, acoustic=acoustic, language=language, files=files)


def _parse_decode(where: str, values: Mapping, part: str) -> Decode:
    chosen = _get_object(where, values, part)
    names = [field.name for field in dataclasses.fields(Decode)]
    return Decode(**{name: _get(f"{where}{part}.", chosen, name) for name in names})


def _parse_file(where: str, name: str, listed: Mapping) -> tuple[int, str]:
    # A name that can be printed has neither NUL nor half of a character.
    if os.path.basename(name) != name or name in ("", ".", "..") or "\\" in name or not name.isprintable():
        raise _refuse(f"{where}a name in files", ascii(name), "one without a directory")
    file, where = _get_object(where, listed, name), f"{where}files.{name}."
    sha256 = file.get("sha256")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise _refuse(f"{where}sha256", sha256, "64 hexadecimal digits")
    return _get(where, file, "num_bytes"), sha256


def _get_object(where: str, values: Mapping, name: str) -> dict:
    if not isinstance(values.get(name), dict):
        raise _refuse(where + name, values.get(name), "an object")
    return values[name]


def _get(where: str, values: Mapping, name: str):
    """Returns a field that is as expected; True and False are no numbers."""
    got, expected = values.get(name), _EXPECTED[name]
    if isinstance(expected[0], str):
        is_right, text = got in expected, " or ".join(expected)
    else:
        kind, least, most = expected
        is_right = type(got) in (int, kind) and least <= got <= most
        text = f"{'an integer' if kind is int else 'a number'} from {least} to {most}"
    if not is_right:
        raise _refuse(where + name, got, text)
    return got


def _refuse(what: str, got, want: str) -> errors.UserError:
    shown = "missing" if got is None else str(got)[:100]
    return errors.UserError(f"{what} is {shown}, expected {want}; {_AGAIN}")


def _check_regular(path: str) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.UserError(f"{path}: is no regular file, expected a file of the export; {_AGAIN}")


def _check_file(path: str, num_bytes: int, sha256: str) -> None:
    _check_regular(path)
    try:
        got, digest = os.path.getsize(path), hashlib.sha256()
        if got != num_bytes:
            raise errors.UserError(f"{path}: has {got} bytes, expected {num_bytes}; {_AGAIN}")
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        problem = f"{error.strerror}, expected a file of the export"
        raise errors.UserError(f"{path}: {problem}; {_AGAIN}") from error
    if digest.hexdigest() != sha256:
        raise errors.UserError(f"{path}: is damaged, its SHA-256 is not that of {FILE}; {_AGAIN}")
