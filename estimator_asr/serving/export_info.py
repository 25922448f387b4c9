"""export.json: what an exported model was made of, and the size and sha256 of each of its files.

The files are checked before TensorFlow reads them: it takes half a vocabulary for a whole one, and writes
wrong text without an error. Exports of earlier versions list no files; there the vocabularies are checked.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Optional

from tfrecord_builder import config_json, errors, files, frontend

INFO_FILE = os.path.join("assets.extra", "export.json")
_ADVICE = "copy the export again, or export again"


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """Size and hex digest of a file."""

    num_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """A model in the export; the acoustic model has only tokens."""

    global_step: int
    tokens_sha256: str
    characters_sha256: str = ""
    readings_sha256: str = ""


@dataclasses.dataclass(frozen=True)
class ExportInfo:
    """What export.json holds.

    Attributes:
      language: None for an export that writes tokens.
      input: fields of config.InputConfig for the batches of evaluate; empty in exports of earlier versions.
      files: path in the version, with slashes, to what the file is; empty in exports of earlier versions.
      sha256: hex digest of all that precedes.
    """

    frontend: frontend.FrontendConfig
    token_type: str = config_json.formerly("unit")
    acoustic: ModelInfo
    language: Optional[ModelInfo]
    input: dict[str, int] = dataclasses.field(default_factory=dict)
    files: dict[str, FileInfo] = dataclasses.field(default_factory=dict)
    sha256: str = ""

    def save(self, version_dir: str) -> None:
        """Writes export.json with the size and sha256 of every other file; call it when all else is there."""
        path = os.path.join(version_dir, INFO_FILE)
        described = dataclasses.replace(self, files=_describe_files(version_dir))
        values = config_json.to_json_dict(described)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**values, "sha256": _digest(values)}, file, indent=2)
            file.write("\n")

    def check_files(self, version_dir: str) -> None:
        """Raises errors.UserError if a file of the export is missing or is not what was exported."""
        for name, expected in self.files.items():
            _check_file(os.path.join(version_dir, *name.split("/")), expected)
        if not self.files:
            self._check_vocabularies(os.path.join(version_dir, "assets"))

    def _check_vocabularies(self, directory: str) -> None:
        expected = {self.acoustic.tokens_sha256}
        if self.language is not None:
            expected |= {self.language.tokens_sha256, self.language.characters_sha256}
        try:
            found = {files.sha256(os.path.join(directory, name)) for name in os.listdir(directory)}
        except OSError as error:
            raise _unreadable(error.filename, error) from error
        if not expected <= found:
            raise errors.UserError(
                f"{directory}: a vocabulary is damaged or missing, expected those of {INFO_FILE}; {_ADVICE}"
            )


def load(version_dir: str) -> ExportInfo:
    """Reads export.json.

    Raises:
      errors.UserError: it is missing, or is not what `save` wrote.
    """
    path = os.path.join(version_dir, INFO_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except (OSError, ValueError) as error:
        raise errors.UserError(
            f"{path}: cannot be read ({error}), expected what estimator_asr.export writes; {_ADVICE}"
        ) from error
    try:
        info = config_json.from_json_dict(ExportInfo, values)
    except errors.UserError as error:
        raise errors.UserError(f"{path}: {error}; {_ADVICE}") from error
    if (info.files or info.sha256) and info.sha256 != _digest(values):
        raise errors.UserError(f"{path}: is damaged, its sha256 is not the one that it holds; {_ADVICE}")
    return info


def _digest(values: Mapping) -> str:
    signed = {name: value for name, value in values.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()


def _describe_files(directory: str) -> dict[str, FileInfo]:
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(directory) for name in names]
    return {
        os.path.relpath(path, directory).replace(os.sep, "/"): FileInfo(
            os.path.getsize(path), files.sha256(path)
        )
        for path in sorted(paths)
    }


def _check_file(path: str, expected: FileInfo) -> None:
    try:
        found = FileInfo(os.path.getsize(path), files.sha256(path))
    except OSError as error:
        raise _unreadable(path, error) from error
    if found.num_bytes != expected.num_bytes:
        raise errors.UserError(
            f"{path}: is damaged, it has {found.num_bytes} bytes, expected {expected.num_bytes}; {_ADVICE}"
        )
    if found.sha256 != expected.sha256:
        got, want = found.sha256[:12], expected.sha256[:12]
        raise errors.UserError(f"{path}: is damaged, its sha256 is {got}, expected {want}; {_ADVICE}")


def _unreadable(path: str, error: OSError) -> errors.UserError:
    return errors.UserError(f"{path}: cannot be read ({error.strerror}); {_ADVICE}")
