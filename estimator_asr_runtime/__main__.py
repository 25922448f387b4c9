"""Transcribes audio files with an exported model, without TensorFlow."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Optional

from estimator_asr_runtime import errors, model, recogniser, statuses

_EPILOG = """\
The model directory is an export of estimator_asr as ONNX or LiteRT; its files are compared with the digests
in model.json. Audio may be WAV, FLAC, OGG or MP3, of any sample rate and number of channels. Each file is one
utterance, so cut long recordings at pauses.

  --format=text   one transcript per line
  --format=json   one object per file, with its name: transcript, pinyin, confidence, status, the start and
                  end of each character in seconds, and other transcripts by their scores (n_best)

A file that cannot be transcribed is named on standard error, and the exit code is 1; the others go on.

examples:
  python -m estimator_asr_runtime --model=DIR a.wav b.wav
  python -m estimator_asr_runtime --model=DIR --format=json *.wav | python -m json.tool --json-lines
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the program; returns its exit code."""
    args = _make_parser().parse_args(argv)
    try:
        loaded = recogniser.Recogniser(model.load(args.model, args.threads))
    except errors.UserError as error:
        print(error, file=sys.stderr)
        return 1
    return max([_transcribe(loaded, path, args.format) for path in args.files])


def _transcribe(loaded: recogniser.Recogniser, path: str, style: str) -> int:
    """Prints the result of one file; returns 0, or 1 if it was not transcribed."""
    try:
        result = loaded.recognise_file(path)
    except errors.UserError as error:
        print(error, file=sys.stderr)
        return 1
    is_ok = result["status"] == statuses.OK
    if style == "json":
        print(json.dumps({"file": path, **result}, ensure_ascii=False), flush=True)
    elif is_ok:
        print(result["transcript"], flush=True)
    if not is_ok:
        print(f"{path}: {statuses.SENTENCES[result['status']]}", file=sys.stderr)
    return 0 if is_ok else 1


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m estimator_asr_runtime",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="exported model: the directory of model.json"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output; default: text")
    parser.add_argument(
        "--threads", type=int, default=0, help="of each graph; default: as the library chooses"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="audio file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
