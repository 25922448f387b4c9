"""Writes a web page that transcribes speech from the microphone entirely in the browser.

The page contains the model's model.json with additions that web/model.js needs: rules for joining tokens, an
entry in files for onnxruntime-web (ort.wasm), and n-gram models, each of whose arrays has its own file:

{"sample_rate": 16000, ..., "files": {"ort.wasm": {"num_bytes": 11905541, "sha256": "0a1b..."}, ...},
 "ngrams": {"acoustic": null, "language": {"order": 3, "start_state": 1, "arrays": {
     "keys": {"file": "model/language_ngram.keys.bin", "type": "float64"}, ...}}}}
"""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))  # no traceback if Ctrl-C interrupts the imports

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from estimator_asr_runtime import errors, joining, model, model_json, ngrams

_WEB_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web")
# onnxruntime-web's WebAssembly-only build, with its loader; a single thread needs no other files.
_SCRIPT, _WASM = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
_ARRAYS = tuple(name for name in ngrams.BackOffArrays._fields if name not in ("order", "start_state"))
_EPILOG = """\
The model must be an ONNX export from estimator_asr. onnxruntime-web is an npm package, release 1.21 or later;
`npm pack onnxruntime-web` downloads it, and tar unpacks it into a directory named package. The output
directory contains everything that the page needs; the page uses no other server, and audio stays in the
browser. Any static web server can serve it. Browsers allow a page to use the microphone only over https or on
localhost.

examples:
  npm pack onnxruntime-web && tar xzf onnxruntime-web-*.tgz
  python -m estimator_asr_runtime.page --model=EXPORT --onnxruntime_web=package --output_dir=PAGE
  python -m http.server --directory=PAGE 8000    # then open http://localhost:8000
"""


class Library(NamedTuple):
    """Paths of the two files from onnxruntime-web."""

    script: str
    wasm: str


def find_library(directory: str) -> Library:
    """Finds onnxruntime-web's two files in the npm package's directory or its subdirectory dist.

    Raises errors.UserError if a file is missing.
    """
    for folder in (os.path.join(directory, "dist"), directory):
        library = Library(os.path.join(folder, _SCRIPT), os.path.join(folder, _WASM))
        if all(map(os.path.isfile, library)):
            return library
    raise errors.UserError(
        f"{directory} does not contain dist/{_SCRIPT} and dist/{_WASM} of onnxruntime-web 1.21 or later; "
        "run `npm pack onnxruntime-web`, unpack the archive with tar, and pass its package directory"
    )


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the program; returns its exit code."""
    args = _make_parser().parse_args(argv)
    try:
        model_dir = model.find(args.model, ("onnx",))
        num_bytes = write(model_dir, args.onnxruntime_web, args.output_dir)
    except errors.UserError as error:
        print(error, file=sys.stderr)
        return 1
    command = f"python -m http.server --directory={args.output_dir}"
    print(f"{args.output_dir}: {num_bytes / 1e6:.1f} MB; serve it with {command}")
    return 0


def write(model_dir: str, library_dir: str, output_dir: str) -> int:
    """Writes the page into a new or empty directory; returns the size of the page in bytes.

    Raises errors.UserError if the model is damaged or not ONNX, onnxruntime-web is missing, or the
    output directory is not empty or cannot be written.
    """
    library = find_library(library_dir)
    if os.path.lexists(output_dir) and not (os.path.isdir(output_dir) and not os.listdir(output_dir)):
        raise errors.UserError(f"{output_dir} is not an empty directory; choose another --output_dir")
    loaded = model.load(model_dir, num_threads=1)
    if loaded.settings.format != "onnx":
        raise errors.UserError(
            f"{model_dir}: format is {loaded.settings.format}, expected onnx; export with --format=onnx"
        )
    try:
        return _write_whole(loaded, library, output_dir)
    except OSError as error:
        raise errors.UserError(
            f"cannot write to {output_dir} ({error.strerror}); choose another --output_dir"
        ) from error


def _write_whole(loaded: model.Model, library: Library, output_dir: str) -> int:
    """Writes the page under a temporary name, then renames it; the output directory is never incomplete."""
    parent, name = os.path.split(os.path.abspath(output_dir))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=parent) as temporary:
        temporary_dir = os.path.join(temporary, name)
        num_bytes = _write_files(loaded, library, temporary_dir)
        if os.path.isdir(output_dir):
            os.rmdir(output_dir)
        os.rename(temporary_dir, output_dir)
    return num_bytes


def _write_files(loaded: model.Model, library: Library, directory: str) -> int:
    """Writes all files into a new directory; returns their total size in bytes."""
    shutil.copytree(_WEB_DIR, directory)
    copies = {library.script: "ort.js", library.wasm: "ort.wasm"}  # some servers lack a media type for .mjs
    os.mkdir(os.path.join(directory, "model"))
    for name in loaded.settings.files:
        if not name.endswith(".npz"):
            copies[os.path.join(loaded.path, name)] = f"model/{os.path.basename(name)}"
    for path, name in copies.items():
        shutil.copyfile(path, os.path.join(directory, name))
    ngram_entries = {part: _unpack(loaded, directory, part) for part in ("acoustic", "language")}
    names = ("ort.wasm", *sorted(f"model/{name}" for name in os.listdir(os.path.join(directory, "model"))))
    files = {}
    for name in names:
        path = os.path.join(directory, name)
        files[name] = {"num_bytes": os.path.getsize(path), "sha256": model_json.find_digest(path)}
    listing = {**_read_settings(loaded), "ngrams": ngram_entries, "files": files}
    with open(os.path.join(directory, model_json.FILE), "w", encoding="utf-8") as file:
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
        "syllables": {  # rules for joining initials and finals into syllables
            "joining": joining.JOININGS["initial_final"]._asdict(),
            "initial": joining.INITIAL,
            "final": joining.FINAL,
        },
    }


def _unpack(loaded: model.Model, directory: str, part: str) -> Optional[Mapping]:
    """Writes an n-gram model's arrays; returns its entry for model.json, or None if there is none."""
    if getattr(loaded, f"{part}_ngram") is None:
        return None
    arrays = ngrams.load(os.path.join(loaded.path, f"{part}_ngram.npz"))
    entries = {}
    for field in _ARRAYS:
        values, path = getattr(arrays, field), f"model/{part}_ngram.{field}.bin"
        # JavaScript's typed arrays are little-endian, and its numbers cannot be int64. The keys, which are
        # below num_states x num_tokens, become float64, which is exact up to 2^53.
        integer = "<f8" if values.itemsize == 8 else "<i4"
        values = values.astype(integer if values.dtype.kind == "i" else "<f4")
        values.tofile(os.path.join(directory, path))
        entries[field] = {"file": path, "type": values.dtype.name}
    return {"order": int(arrays.order), "start_state": int(arrays.start_state), "arrays": entries}


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m estimator_asr_runtime.page",
        description=__doc__.splitlines()[0],
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for flag, metavar, text in (
        ("--model", "EXPORT", "directory of an ONNX export, of a version in it, or of its ONNX files"),
        ("--onnxruntime_web", "DIR", "directory of the unpacked npm package onnxruntime-web, or its dist"),
        ("--output_dir", "PAGE", "directory to write the page to; must be empty or new"),
    ):
        parser.add_argument(flag, required=True, type=os.path.expanduser, metavar=metavar, help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
