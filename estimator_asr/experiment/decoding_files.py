"""Decoding files of a model directory: decoding.json (settings found by tune) and the models that they use.

ngram-HASH.npz is an n-gram model, and whisper-HASH.npz is Whisper's decoder. Every new model gets a new file
name, and decoding.json, which contains the hashes, is replaced atomically, so that settings and models match
even if a run is killed.
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
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.experiment import back_off_arrays
from estimator_asr.experiment import config as config_lib
from tfrecord_builder import errors
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

DECODING_FILE = "decoding.json"
# Fields of Whisper's decoder (see models.whisper_decoder.DecoderArrays) except the weights, then the hashes
# of the vocabularies and of the encoder that the decoder was made for.
WHISPER_FIELDS = (
    *("heads", "layers", "token_texts", "characters", "readings", "spellings"),
    *("merged_pairs", "merged_ranks", "merged_symbols"),
    *("tokens_sha256", "encoder_sha256", "characters_sha256", "readings_sha256"),
)
_NAMES = ("ngram", "whisper")
_WEIGHTS = "weights/"  # prefix of the variables' names in the file of Whisper's decoder
_TUNE_AGAIN = "restore it from a copy, or remove decoding.json and run python -m estimator_asr.tune again"


@dataclasses.dataclass(frozen=True)
class SavedDecoding:
    """Contents of decoding.json: a model's decoding settings, and the hashes of its other decoding files."""

    decode: config_lib.DecodeConfig
    ngram_sha256: str  # hash of the n-gram model's file; empty if there is none
    whisper_sha256: str = ""

    def paths(self, directory: str) -> dict[str, str]:
        """Returns the paths of the saved models in a directory, keyed by name (ngram, whisper)."""
        digests = {name: getattr(self, f"{name}_sha256") for name in _NAMES}
        return {name: _path(directory, name, digest) for name, digest in digests.items() if digest}


class Decoding(NamedTuple):
    """A model's decoding settings, and the other models that they use (for attributes, see `save`)."""

    decode: config_lib.DecodeConfig
    ngram: Optional[back_off_arrays.BackOffArrays] = None
    whisper: Optional[types.SimpleNamespace] = None


def save(path: str, decoding: Decoding) -> None:
    """Writes a model's decoding settings, and the models that they use, to its directory.

    Whisper's decoder has the attributes in WHISPER_FIELDS and `weights`.
    """
    digests = {"ngram_sha256": ""}
    for name in _NAMES:
        model = getattr(decoding, name)
        if model is not None:
            content = io.BytesIO()
            write = np.savez_compressed if name == "ngram" else np.savez  # Whisper's weights hardly compress
            write(content, **_flatten(model))
            digest = digests[f"{name}_sha256"] = hashlib.sha256(content.getvalue()).hexdigest()
            with files.writing(_path(path, name, digest)) as temporary, open(temporary, "wb") as file:
                file.write(content.getvalue())
    saved = SavedDecoding(decoding.decode, **digests)
    text = json.dumps(config_json.to_json_dict(saved), indent=2) + "\n"
    files.write_text(os.path.join(path, DECODING_FILE), text)
    _remove_others(path, saved)


def load(path: str, num_tokens: int) -> Decoding:
    """Reads the decoding files in a directory; returns default settings if there are none.

    Raises errors.UserError if a file is missing or damaged, or if the n-gram model does not have `num_tokens`
    tokens.
    """
    saved, models = _read(path), {}
    for name, file in saved.paths(path).items():
        try:
            with open(file, "rb") as opened, np.lib.npyio.NpzFile(opened) as arrays:
                models[name] = _READERS[name](arrays)
        except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise errors.UserError(f"{file}: cannot be read ({error}); {_TUNE_AGAIN}") from error
    got = len(models["ngram"].unigram_log_probs) if "ngram" in models else num_tokens
    if got != num_tokens:
        file = saved.paths(path)["ngram"]
        raise errors.UserError(f"{file} has {got} tokens, expected {num_tokens}; {_TUNE_AGAIN}")
    if saved.decode.whisper_weight and "whisper" not in models:
        raise errors.UserError(
            f"{os.path.join(path, DECODING_FILE)}: whisper_weight is {saved.decode.whisper_weight:g}, but "
            f"whisper_sha256 is missing; {_TUNE_AGAIN}"
        )
    return Decoding(saved.decode, **models)


def _flatten(model: back_off_arrays.BackOffArrays | types.SimpleNamespace) -> dict[str, np.ndarray]:
    values = dict(vars(model))
    weights = values.pop("weights", {})
    return values | {f"{_WEIGHTS}{name}": value for name, value in weights.items()}


def _read_ngram(arrays) -> back_off_arrays.BackOffArrays:
    names = [field.name for field in dataclasses.fields(back_off_arrays.BackOffArrays)]
    return back_off_arrays.BackOffArrays(int(arrays[names[0]]), *(arrays[name] for name in names[1:]))


def _read_whisper(arrays) -> types.SimpleNamespace:
    names = [name for name in arrays.files if name.startswith(_WEIGHTS)]
    weights = {name[len(_WEIGHTS) :]: arrays[name] for name in names}
    return types.SimpleNamespace(weights=weights, **{name: arrays[name] for name in WHISPER_FIELDS})


_READERS = {"ngram": _read_ngram, "whisper": _read_whisper}


def copy(source: str, target: str) -> None:
    """Replaces the decoding files in `target` with copies of those in `source`."""
    saved = _read(source)
    for name, file in saved.paths(source).items():
        files.copy(file, saved.paths(target)[name])
    old, new = (os.path.join(path, DECODING_FILE) for path in (source, target))
    if os.path.exists(old):
        files.copy(old, new)
    else:
        _remove(new)
    _remove_others(target, saved)


def _read(path: str) -> SavedDecoding:
    file = os.path.join(path, DECODING_FILE)
    try:
        return config_json.from_json_dict(SavedDecoding, config_json.parse(files.read_text(file)))
    except FileNotFoundError:
        return SavedDecoding(config_lib.DecodeConfig(), "")
    except (OSError, ValueError, errors.UserError) as error:
        raise errors.UserError(f"{file}: cannot be read ({error}); {_TUNE_AGAIN}") from error


def _path(directory: str, name: str, sha256: str) -> str:
    return os.path.join(directory, f"{name}-{sha256[:12]}.npz")


def _remove_others(path: str, saved: SavedDecoding) -> None:
    current = saved.paths(path).values()
    for name in _NAMES:
        for file in glob.glob(os.path.join(glob.escape(path), f"{name}-*.npz")):
            if file not in current:
                _remove(file)


def _remove(file: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # there may be no file, or another process removed it
        os.remove(file)
