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
from collections.abc import Mapping
from typing import Optional

from estimator_asr_runtime import backends, errors, joining

FILE = "model.json"
LAYOUT = 1
FORMATS = tuple(backends.BACKENDS)
_AGAIN = "copy the export again, or export again"
_BLOCK_BYTES = 1 << 20
_MANY = 1_000_000


def _one_of(*choices: str):
    return dataclasses.field(metadata={"choices": choices})


def _between(least: float, most: float):
    return dataclasses.field(metadata={"limits": (least, most)})


@dataclasses.dataclass(frozen=True)
class Decode:
    """How the tokens of an utterance are found; the fields are those of estimator_asr's DecodeConfig."""

    decoding: str = _one_of("beam", "greedy")
    beam_width: int = _between(1, _MANY)
    candidates: int = _between(1, _MANY)
    skipped_blank: float = _between(1e-9, 1)
    ngram_weight: float = _between(0, _MANY)
    token_bonus: float = _between(-_MANY, _MANY)
    attention_weight: float = _between(0, _MANY)
    language_weight: float = _between(0, _MANY)
    confidence_scale: float = _between(-_MANY, _MANY)
    confidence_offset: float = _between(-_MANY, _MANY)


@dataclasses.dataclass(frozen=True)
class ModelJson:
    """The content of model.json."""

    format: str = _one_of(*FORMATS)
    sample_rate: int = _between(1000, _MANY)  # Hz
    max_seconds: int = _between(1, 3600)  # of an utterance
    min_samples: int = _between(1, _MANY)  # fewer make no frame
    token_type: str = _one_of(*joining.JOININGS)
    output_seconds: float = _between(0.0001, 10)  # from one frame of log_probs to the next
    acoustic: Decode
    language: Optional[Decode]  # None without a language model
    files: Mapping[str, tuple[int, str]]  # bytes and SHA-256 by name

    @property
    def joining(self) -> joining.Joining:
        """How strings are joined to a transcript."""
        return joining.JOININGS["character" if self.language else self.token_type]

    @property
    def syllable_pattern(self) -> str:
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
        raise errors.UserError(f"{path}: is not valid JSON; {_AGAIN}") from error


def _parse(where: str, values: Mapping) -> ModelJson:
    has_language = values.get("language") is not None
    listed = _get_object(where, values, "files")
    parts = {"acoustic": None, "language": None}
    for part in ("acoustic", "language") if has_language else ("acoustic",):
        parts[part] = Decode(**_get_all(f"{where}{part}.", _get_object(where, values, part), Decode))
    chosen = _get_all(where, values, ModelJson)
    if has_language and chosen["token_type"] not in joining.SYLLABLES:
        raise _refuse(f"{where}token_type", chosen["token_type"], " or ".join(joining.SYLLABLES))
    return ModelJson(**chosen, **parts, files={name: _parse_file(where, name, listed) for name in listed})


def _parse_file(where: str, name: str, listed: Mapping) -> tuple[int, str]:
    # A name that can be printed has neither NUL nor half of a character.
    if os.path.basename(name) != name or name in ("", ".", "..") or "\\" in name or not name.isprintable():
        raise _refuse(f"{where}a name in files", ascii(name), "one without a directory")
    file = _get_object(f"{where}files.", listed, name)
    return file.get("num_bytes"), file.get("sha256")  # which are compared with those of the file


def _get_object(where: str, values: Mapping, name: str) -> dict:
    if not isinstance(values.get(name), dict):
        raise _refuse(where + name, values.get(name), "an object")
    return values[name]


def _get_all(where: str, values: Mapping, kind: type) -> dict:
    """Returns the fields of a class that have choices or limits; True and False are not numbers."""
    fields = [field for field in dataclasses.fields(kind) if field.metadata]
    for field in fields:
        got, type_name = values.get(field.name), field.type
        if choices := field.metadata.get("choices"):
            is_right, text = got in choices, " or ".join(choices)
        else:
            least, most = field.metadata["limits"]
            is_right = type(got).__name__ in ("int", type_name) and least <= got <= most
            text = f"{'an integer' if type_name == 'int' else 'a number'} from {least} to {most}"
        if not is_right:
            raise _refuse(where + field.name, got, text)
    return {field.name: values[field.name] for field in fields}


def _refuse(what: str, got, want: str) -> errors.UserError:
    shown = "missing" if got is None else str(got)[:100]
    return errors.UserError(f"{what} is {shown}, expected {want}; {_AGAIN}")


def _check_regular(path: str) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.UserError(f"{path}: is not a regular file, expected a file of the export; {_AGAIN}")


def find_digest(path: str) -> str:
    """Returns the SHA-256 of a file, in hexadecimal; raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _check_file(path: str, num_bytes: int, sha256: str) -> None:
    _check_regular(path)
    try:
        got = os.path.getsize(path)
        if got != num_bytes:
            raise errors.UserError(f"{path}: has {got} bytes, expected {num_bytes}; {_AGAIN}")
        digest = find_digest(path)
    except OSError as error:
        problem = f"{error.strerror}, expected a file of the export"
        raise errors.UserError(f"{path}: {problem}; {_AGAIN}") from error
    if digest != sha256:
        raise errors.UserError(f"{path}: is damaged, its SHA-256 is not that of {FILE}; {_AGAIN}")
