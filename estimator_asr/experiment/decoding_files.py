"""decoding.json and ngram-HASH.npz of a model directory: what tune found, with the n-gram model it is for.

A new n-gram model has another name, and decoding.json, which names it, is replaced at once: whenever a run is
killed, both belong together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import io
import json
import os
import types
import zipfile
import zlib
from typing import Optional

import numpy as np

from estimator_asr.experiment import config as config_lib
from tfrecord_builder import errors
from tfrecord_builder.settings import config_json
from tfrecord_builder.storage import files

DECODING_FILE = "decoding.json"
_NGRAM_FILES = "ngram-*.npz"
# Of ngrams.back_off.BackOffArrays.
FIELDS = (
    *("order", "keys", "log_probs", "next_states", "unigram_log_probs", "unigram_states"),
    *("back_off_weights", "back_off_states", "end_log_probs", "start_state"),
)
_TUNE_AGAIN = "restore it from a copy, or remove decoding.json and run python -m estimator_asr.tune again"


@dataclasses.dataclass(frozen=True)
class SavedDecoding:
    """Content of decoding.json."""

    decode: config_lib.DecodeConfig
    ngram_sha256: str  # of its file; empty without an n-gram model


def save(path: str, decode: config_lib.DecodeConfig, ngram: Optional[types.SimpleNamespace]) -> None:
    """Writes how the model of a directory decodes, and its n-gram model with the attributes FIELDS."""
    sha256 = ""
    if ngram is not None:
        content = io.BytesIO()
        np.savez_compressed(content, **vars(ngram))
        sha256 = hashlib.sha256(content.getvalue()).hexdigest()
        with files.writing(_ngram_path(path, sha256)) as temporary, open(temporary, "wb") as file:
            file.write(content.getvalue())
    text = json.dumps(config_json.to_json_dict(SavedDecoding(decode, sha256)), indent=2) + "\n"
    files.write_text(os.path.join(path, DECODING_FILE), text)
    _remove_others(path, sha256)


def load(path: str, num_tokens: int) -> tuple[config_lib.DecodeConfig, Optional[types.SimpleNamespace]]:
    """Returns what `save` wrote into a directory; the defaults, and None, where nothing was saved.

    Raises errors.UserError if a file is missing or damaged, or the n-gram model has another number of tokens.
    """
    saved = _read(path)
    if not saved.ngram_sha256:
        return saved.decode, None
    file = _ngram_path(path, saved.ngram_sha256)
    try:
        with open(file, "rb") as opened, np.load(opened) as arrays:
            ngram = types.SimpleNamespace(**{name: arrays[name] for name in FIELDS})
    except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise errors.UserError(f"{file}: cannot be read ({error}); {_TUNE_AGAIN}") from error
    got = len(ngram.unigram_log_probs)
    if got != num_tokens:
        raise errors.UserError(f"{file}: has {got} tokens, expected {num_tokens}; {_TUNE_AGAIN}")
    return saved.decode, ngram


def copy(source: str, target: str) -> None:
    """Copies the files from one directory to another, as they are on disk, in place of its own."""
    saved = _read(source)
    if saved.ngram_sha256:
        _copy_file(_ngram_path(source, saved.ngram_sha256), _ngram_path(target, saved.ngram_sha256))
    if os.path.exists(os.path.join(source, DECODING_FILE)):
        _copy_file(os.path.join(source, DECODING_FILE), os.path.join(target, DECODING_FILE))
    else:
        _remove(os.path.join(target, DECODING_FILE))
    _remove_others(target, saved.ngram_sha256)


def _read(path: str) -> SavedDecoding:
    file = os.path.join(path, DECODING_FILE)
    try:
        return config_json.from_json_dict(SavedDecoding, json.loads(files.read_text(file)))
    except FileNotFoundError:
        return SavedDecoding(config_lib.DecodeConfig(), "")
    except (OSError, ValueError, errors.UserError) as error:
        raise errors.UserError(f"{file}: cannot be read ({error}); {_TUNE_AGAIN}") from error


def _ngram_path(path: str, sha256: str) -> str:
    return os.path.join(path, _NGRAM_FILES.replace("*", sha256[:12]))


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as file, files.writing(target) as temporary, open(temporary, "wb") as output:
        output.write(file.read())


def _remove_others(path: str, sha256: str) -> None:
    for file in glob.glob(os.path.join(glob.escape(path), _NGRAM_FILES)):
        if not sha256 or file != _ngram_path(path, sha256):
            _remove(file)


def _remove(file: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process has removed it
        os.remove(file)
