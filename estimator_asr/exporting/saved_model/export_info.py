"""Reads and writes export.json, which describes an export's models, comparison results and files.

The files are verified before TensorFlow reads them, because TensorFlow loads a truncated vocabulary without
an error and then returns wrong transcripts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Optional

from estimator_asr.exporting.saved_model import statuses
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

INFO_FILE = os.path.join("assets.extra", "export.json")
WRITTEN_FORM_FILE = "assets.extra/written_form.json"  # a key of ExportInfo.files
_ADVICE = "copy the export again, or export the model again"


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """Size and sha256 (hex digest) of a file."""

    num_bytes: int
    sha256: str

    def __str__(self):
        return f"{self.num_bytes} bytes, sha256 {self.sha256[:12]}"


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """A model in the export, with the hashes of its vocabularies; `decode` has DecodeConfig's fields.

    An acoustic model has only tokens_sha256; a punctuation model has only characters_sha256.
    """

    global_step: int
    tokens_sha256: str = ""
    characters_sha256: str = ""
    readings_sha256: str = ""
    decode: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class UnreadTokens:
    """Acoustic model tokens that the language model lacks; num_tokens counts all acoustic model tokens."""

    tokens: tuple[str, ...] = ()
    num_tokens: int = 0

    def describe(self, language: str, acoustic: str) -> str:
        """Returns a warning that lists the tokens; the arguments are the names of the two models."""
        return (
            f"{language} lacks {len(self.tokens):,} of the {self.num_tokens:,} tokens of {acoustic} and "
            f"reads them as <unk>: {errors.list_examples(self.tokens)}. Where such a token is spoken, the "
            "transcript contains hanzi that fit the context, whatever their pronunciation. Train the "
            "language model on text that contains these tokens."
        )


@dataclasses.dataclass(frozen=True)
class ExportInfo:
    """Contents of export.json.

    `input` has the fields of config.InputConfig that define how evaluate forms batches. `parity` has the
    fields of parity.Certificate, and is empty if the export was not compared with its models. `formats` has
    the fields of agreement.Agreement for each other format. `files` maps each file's path in the version,
    written with slashes, to the file's size and digest. Exports made by version 0.1.0 have no `unread`,
    `parity` or `formats`.
    """

    frontend: frontend.FrontendConfig
    token_type: str
    acoustic: ModelInfo
    language: Optional[ModelInfo]  # None if the export writes tokens
    punctuation: Optional[ModelInfo] = None  # None if transcripts have no marks
    unread: UnreadTokens = UnreadTokens()
    max_seconds: int = statuses.MAX_SECONDS  # maximum length of an item's audio, in seconds
    chunk_frames: int = 0  # frames per chunk of a stream; 0 if the model does not stream
    input: dict[str, int] = dataclasses.field(default_factory=dict)
    parity: dict[str, object] = dataclasses.field(default_factory=dict)
    formats: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict)
    files: dict[str, FileInfo] = dataclasses.field(default_factory=dict)
    sha256: str = ""  # hex digest of all other fields

    @property
    def chunk_seconds(self) -> float:
        """Seconds of audio per chunk of a stream; 0 if the model does not stream."""
        return self.chunk_frames * self.frontend.frame_seconds

    def save(self, version_dir: str) -> None:
        """Writes export.json with the size and sha256 of all other files, which must already exist."""
        path = os.path.join(version_dir, INFO_FILE)
        values = config_json.to_json_dict(dataclasses.replace(self, files=describe_files(version_dir)))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.write_text(path, json.dumps({**values, "sha256": digest(values)}, indent=2) + "\n")

    def check_files(self, version_dir: str) -> None:
        """Raises errors.UserError if a file in the export is missing or has changed since it was exported."""
        for name, want in self.files.items():
            path = os.path.join(version_dir, *name.split("/"))
            try:
                got = _describe(path)
            except OSError as error:
                raise errors.UserError(f"{path} cannot be read ({error.strerror}); {_ADVICE}") from error
            if got != want:
                raise errors.UserError(f"{path} is damaged: it has {got} instead of {want}; {_ADVICE}")

    def describe_unread(self, version_dir: str) -> str:
        """Returns a warning about tokens that the language model lacks, or "" if there are none."""
        models = f"{version_dir}: the language model", "the acoustic model"
        return self.unread.describe(*models) if self.unread.tokens else ""


def load(version_dir: str) -> ExportInfo:
    """Reads export.json.

    Raises errors.UserError if export.json is missing or damaged.
    """
    path = os.path.join(version_dir, INFO_FILE)
    try:
        values = config_json.parse(files.read_text(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise errors.UserError(f"{path} cannot be read ({reason}); {_ADVICE}") from error
    try:
        info = config_json.from_json_dict(ExportInfo, values)
    except errors.UserError as error:
        raise errors.UserError(f"{path}: {error}; {_ADVICE}") from error
    if info.sha256 != digest(values):
        raise errors.UserError(
            f"{path} is damaged: its contents do not match the sha256 recorded in it; {_ADVICE}"
        )
    return info


def digest(values: Mapping) -> str:
    """Returns the sha256, in hexadecimal, of all fields except sha256."""
    signed = {name: value for name, value in values.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()


def describe_files(directory: str) -> dict[str, FileInfo]:
    """Returns the size and digest of every file except export.json, keyed by path in the directory."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(directory) for name in names]
    names = {os.path.relpath(path, directory): path for path in sorted(paths)}
    return {name.replace(os.sep, "/"): _describe(path) for name, path in names.items() if name != INFO_FILE}


def _describe(path: str) -> FileInfo:
    return FileInfo(os.path.getsize(path), files.sha256(path))
