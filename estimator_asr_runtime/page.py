"""Writes a web page that transcribes the microphone in the browser, without computing on a server."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))  # no traceback during imports

import argparse
import os
import tempfile
from collections.abc import Sequence
from typing import Optional

from estimator_asr_runtime import errors, model, page_files

_EPILOG = """\
The model is an export of estimator_asr as ONNX. onnxruntime-web is an npm package, release 1.21 or later;
`npm pack onnxruntime-web` downloads it, and tar unpacks it into a directory named package. The output
directory contains everything that the page needs; the page uses no other server, and audio stays in the
browser. Any static web server can serve it. Browsers allow a page to use the microphone only over https or on
localhost.

examples:
  npm pack onnxruntime-web && tar xzf onnxruntime-web-*.tgz
  python -m estimator_asr_runtime.page --model=EXPORT --onnxruntime_web=package --output_dir=PAGE
  python -m http.server --directory=PAGE 8000    # then open http://localhost:8000
"""


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
    output directory has files or cannot be written.
    """
    library = page_files.find_library(library_dir)
    _check_output(output_dir)
    loaded = model.load(model_dir, num_threads=1)
    if loaded.settings.format != "onnx":
        raise errors.UserError(
            f"{model_dir}: format is {loaded.settings.format}, expected onnx; export with --format=onnx"
        )
    try:
        return _write_whole(loaded, library, output_dir)
    except OSError as error:
        raise errors.UserError(
            f"{output_dir} cannot be written ({error.strerror}); choose another --output_dir"
        ) from error


def _check_output(path: str) -> None:
    if os.path.isdir(path) and not os.listdir(path):
        return
    if os.path.lexists(path):
        raise errors.UserError(f"{path} is not an empty directory; choose another --output_dir")


def _write_whole(loaded: model.Model, library: page_files.Library, output_dir: str) -> int:
    """Writes under a temporary name, then renames, so that the output directory is never incomplete."""
    parent, name = os.path.split(os.path.abspath(output_dir))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=parent) as temporary:
        temporary_dir = os.path.join(temporary, name)
        num_bytes = page_files.write(loaded, library, temporary_dir)
        if os.path.isdir(output_dir):
            os.rmdir(output_dir)
        os.rename(temporary_dir, output_dir)
    return num_bytes


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m estimator_asr_runtime.page",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        required=True,
        type=os.path.expanduser,
        metavar="EXPORT",
        help="export directory with a model as ONNX, or a version or a directory onnx in it",
    )
    parser.add_argument(
        "--onnxruntime_web",
        required=True,
        type=os.path.expanduser,
        metavar="DIR",
        help="directory of the unpacked npm package, or its directory dist",
    )
    parser.add_argument(
        "--output_dir",
        required=True,
        type=os.path.expanduser,
        metavar="PAGE",
        help="directory to write the page to; must be empty or new",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
