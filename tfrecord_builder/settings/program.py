"""Runs a command-line program: its flags become configs, and an error that a user can fix one sentence."""

from __future__ import annotations

import itertools
import logging as standard_logging
import os
import sys
from collections.abc import Callable

from absl import app, flags, logging

from tfrecord_builder import errors
from tfrecord_builder.runtime import interrupts
from tfrecord_builder.settings import config_flags


def run(main: Callable[..., object], *config_classes: type, takes_words: bool = False) -> None:
    """Parses the command line, runs main and exits.

    A UserError, a refusal of the file system (full, read-only, no permission), a wrong flag or an extra word
    is one line on standard error and exit code 1; Ctrl-C in main is one line and 130; --help is 0. Any other
    error is a bug and has a traceback. Log lines consist of the message. What the encoding of standard output
    lacks, and bytes of a file name that is not UTF-8, are backslash escapes, as in messages.

    Args:
        main: takes a config of each class, and then the words if takes_words; returns the exit code or None.
        config_classes: their fields are the flags, see config_flags.
        takes_words: whether arguments other than flags (FILE...) are allowed; they are refused otherwise,
            because `--use_x False` would ignore `False`.
    """
    if sys.stdout is not None:  # not closed
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = logging.get_absl_handler()
    handler.setFormatter(standard_logging.Formatter("%(message)s"))
    # Below a warning, lines of other libraries tell users nothing; tf2onnx has 400 of them for an export.
    handler.addFilter(lambda line: line.name == "absl" or line.levelno > standard_logging.INFO)
    for config_class in config_classes:
        config_flags.define(config_class)

    def guarded(argv: list[str]) -> object:
        try:
            interrupts.raise_again()
            words = argv[1:]
            if words and not takes_words:
                raise errors.UserError(
                    f"command line: argument is {words[0]!r}, expected flags; write --flag=value or --noflag"
                )
            configs = map(config_flags.from_flags, config_classes)
            return main(*configs, words) if takes_words else main(*configs)
        except errors.UserError as error:
            return _complain(f"error: {error}", 1)
        except KeyboardInterrupt:
            return _complain("interrupted", interrupts.EXIT_CODE)
        except BrokenPipeError:  # `show | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the exit would fail again
            return 1
        except Exception as error:
            refusal = errors.describe_refusal(error)
            if refusal is None:
                raise
            return _complain(f"error: {refusal}", 1)

    app.run(guarded, flags_parser=_parse_flags)


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(_flag_files_first(argv))
    except SystemExit:  # --help and similar flags
        sys.exit(0)
    except flags.Error as error:
        message = str(error).removeprefix("ERROR:: ")  # of absl, for a missing flag file
        sys.exit(_complain(f"error: {message}; see --help", 1))
    except UnicodeDecodeError:
        sys.exit(_complain("error: --flagfile: file is not UTF-8, expected a text file; see --help", 1))


def _flag_files_first(argv: list[str]) -> list[str]:
    """Moves flag files to the front: absl takes the last value of a flag, and the command line wins."""
    words, files, others = iter(argv[1:]), [], []
    for word in words:
        name, has_value, _ = word.partition("=")
        is_file = name in ("--flagfile", "-flagfile")
        path = [] if has_value or not is_file else list(itertools.islice(words, 1))
        (files if is_file and (has_value or path) else others).extend([word, *path])
        if word == "--":
            others += words
    return [argv[0], *files, *others]


def _complain(message: str, exit_code: int) -> int:
    print(end="", flush=True)
    print(message, file=sys.stderr)
    return exit_code
