"""The files of a page: the page itself, the model, and the parts of onnxruntime-web that it needs.

files.json lists what web/model.js reads:

{"settings": {"sample_rate": 16000, ...},                                      as in model.json
 "files": {"ort.wasm": 11905541, "model/acoustic.onnx": 12345, ...},           bytes
 "digests": {"ort.wasm": "0a1b...", ...},                                       SHA-256
 "ngrams": {"acoustic": null, "language": {"order": 3, "start_state": 1, "arrays": {
     "keys": {"file": "model/language_ngram.keys.bin", "type": "float64"}, ...}}}}
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr_runtime import errors, joining, model, model_json, ngrams

_WEB_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web")
# The build for WebAssembly only, which includes the loader; one thread needs no other file.
_SCRIPT, _WASM = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
_ARRAYS = tuple(name for name in ngrams.BackOffArrays._fields if name not in ("order", "start_state"))


class Library(NamedTuple):
    """Paths of the two files of onnxruntime-web."""

    script: str
    wasm: str


def find_library(directory: str) -> Library:
    """Returns the files in the directory of the npm package, or in its directory dist.

    Raises errors.UserError if a file is missing.
    """
    for folder in (os.path.join(directory, "dist"), directory):
        library = Library(os.path.join(folder, _SCRIPT), os.path.join(folder, _WASM))
        if all(map(os.path.isfile, library)):
            return library
    raise errors.UserError(
        f"{directory} does not have dist/{_SCRIPT} and dist/{_WASM} of onnxruntime-web 1.21 or later; "
        "run `npm pack onnxruntime-web`, unpack it with tar and pass its directory, package"
    )


def write(loaded: model.Model, library: Library, directory: str) -> int:
    """Writes all files into a new directory; returns their total size in bytes."""
    shutil.copytree(_WEB_DIR, directory)
    copies = {library.script: "ort.js", library.wasm: "ort.wasm"}  # some servers do not know .mjs
    os.mkdir(os.path.join(directory, "model"))
    for name in loaded.settings.files:
        if not name.endswith(".npz"):
            copies[os.path.join(loaded.path, name)] = f"model/{os.path.basename(name)}"
    for path, name in copies.items():
        shutil.copyfile(path, os.path.join(directory, name))
    ngram_entries = {part: _unpack(loaded, directory, part) for part in ("acoustic", "language")}
    sizes = _list_sizes(directory)
    digests = {name: model_json.find_digest(os.path.join(directory, name)) for name in sizes}
    settings = _read_settings(loaded)
    listing = {"settings": settings, "ngrams": ngram_entries, "files": sizes, "digests": digests}
    with open(os.path.join(directory, "files.json"), "w", encoding="utf-8") as file:
        json.dump(listing, file, ensure_ascii=False, indent=1)
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]
    return sum(map(os.path.getsize, paths))


def _read_settings(loaded: model.Model) -> dict:
    with open(os.path.join(loaded.path, model_json.FILE), encoding="utf-8") as file:
        values = json.load(file)
    values = {name: value for name, value in values.items() if name not in ("files", "sha256")}
    return {
        **values,
        "joining": loaded.settings.joining._asdict(),
        "syllable_pattern": loaded.settings.syllable_pattern,
        "syllables": {  # how initials and finals form syllables
            "joining": joining.JOININGS["initial_final"]._asdict(),
            "initial": joining.INITIAL,
            "final": joining.FINAL,
        },
    }


def _unpack(loaded: model.Model, directory: str, part: str) -> Optional[Mapping]:
    """Writes the arrays of an n-gram model; returns its entry in files.json, or None without a model."""
    if getattr(loaded, f"{part}_ngram") is None:
        return None
    arrays = ngrams.load(os.path.join(loaded.path, f"{part}_ngram.npz"))
    entries = {}
    for field in _ARRAYS:
        values, path = _as_typed(getattr(arrays, field)), f"model/{part}_ngram.{field}.bin"
        values.tofile(os.path.join(directory, path))
        entries[field] = {"file": path, "type": values.dtype.name}
    return {"order": int(arrays.order), "start_state": int(arrays.start_state), "arrays": entries}


def _as_typed(array: np.ndarray) -> np.ndarray:
    """Returns little-endian numbers that JavaScript can read as a typed array.

    int64 keys become float64, which is exact up to 2^53; keys are below num_states * num_tokens.
    """
    return array.astype({"f": "<f4", "i": "<f8" if array.itemsize == 8 else "<i4"}[array.dtype.kind])


def _list_sizes(directory: str) -> Mapping[str, int]:
    names = sorted(f"model/{name}" for name in os.listdir(os.path.join(directory, "model")))
    return {name: os.path.getsize(os.path.join(directory, name)) for name in ("ort.wasm", *names)}
