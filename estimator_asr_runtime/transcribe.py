"""Transcribes audio files with an exported model, without TensorFlow."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))  # no traceback if Ctrl-C interrupts the imports

import argparse
import json
import os
import re
from collections.abc import Sequence
from typing import Optional

from estimator_asr_runtime import errors, model, recogniser, statuses

_EPILOG = """\
The model must be an ONNX or LiteRT export from estimator_asr. EXPORT is an export directory, whose newest
version is used, a version in such a directory, or a format's directory in a version. The model's files are
checked against the digests in model.json. Audio may be WAV, FLAC, Ogg, MP3, AIFF, AU or CAF, with any sample
rate and number of channels. Each file is one utterance, so cut long recordings at pauses.

  --format=text   file<TAB>transcript<TAB>pinyin, one line per file; with a punctuation model, the transcript
                  has marks, and numbers in digits
  --format=json   one object per file, with its name, transcript, pinyin, confidence, status, the start and
                  end of each character in seconds, and alternative transcripts with scores (n_best); with a
                  punctuation model also the transcript with marks (punctuated), and with marks and
                  numbers in digits (written)

If a file cannot be transcribed, the reason is printed to standard error, the other files are still
transcribed, and the exit code is 1.

examples:
  python -m estimator_asr_runtime.transcribe --model=EXPORT a.wav b.wav
  python -m estimator_asr_runtime.transcribe --model=EXPORT --format=json *.wav
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the program; returns its exit code."""
    args = _make_parser().parse_args(argv)
    sys.stdout.reconfigure(errors="backslashreplace")  # escapes characters that the encoding lacks
    try:
        hotwords = _read_lines(args.hotwords_file) if args.hotwords_file else ()
        loaded = recogniser.Recogniser(model.load(model.find(args.model), args.threads), hotwords)
        return max([_transcribe(loaded, path, args.format) for path in args.files])
    except errors.UserError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # lets the flush at exit succeed
        return 1
    except KeyboardInterrupt:
        return 130


def _read_lines(path: str) -> list[str]:
    """Returns the lines of a text file, except empty lines and comments (#)."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(None, "the path is not a regular file")
        with open(path, encoding="utf-8-sig") as file:
            lines = list(map(str.strip, file))
        return [line for line in lines if line and not line.startswith("#")]
    except (OSError, ValueError) as error:  # ValueError: not UTF-8
        reason = getattr(error, "strerror", None) or "the file is not UTF-8"
        raise errors.UserError(f"{path}: {reason}; pass a text file with one hotword per line") from error


def _transcribe(loaded: recogniser.Recogniser, path: str, style: str) -> int:
    """Prints the result for one file; returns 0, or 1 if the file was not transcribed."""
    try:
        result = loaded.recognise_file(path)
    except errors.UserError as error:
        print(error, file=sys.stderr)
        return 1
    is_ok = result["status"] in (statuses.OK, statuses.UNFINISHED)
    if style == "json":
        print(json.dumps({"file": path, **result}, ensure_ascii=False), flush=True)
    elif is_ok:
        text = result.get("written", result["transcript"])
        print(_escape_controls(path), text, result["pinyin"], sep="\t", flush=True)
    if result["status"] != statuses.OK:
        print(f"{path} {statuses.SENTENCES[result['status']]}", file=sys.stderr)
    return 0 if is_ok else 1


def _escape_controls(path: str) -> str:
    """Replaces tabs, line breaks and other control characters in a path with backslash escapes."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda match: ascii(match[0])[1:-1], path)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m estimator_asr_runtime.transcribe",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        required=True,
        type=os.path.expanduser,
        metavar="EXPORT",
        help="export directory, or the directory of a version or a format in it",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format; default: text"
    )
    parser.add_argument(
        "--threads",
        type=_parse_count,
        default=0,
        metavar="N",
        help="number of threads per graph; default: 0, which lets the library choose",
    )
    parser.add_argument(
        "--hotwords_file",
        type=os.path.expanduser,
        metavar="FILE",
        help="file with one hotword per line: 乐山 le4 shan1 or, to set a boost, 乐山 le4 shan1 6",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="audio file")
    return parser


def _parse_count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", text):
        raise argparse.ArgumentTypeError(f"{text} is not an integer from 0 to 9999; pass a thread count")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
