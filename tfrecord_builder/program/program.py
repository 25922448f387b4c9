"""Runs a command-line program: makes configs from its flags, and prints errors that a user can fix."""

from __future__ import annotations

import itertools
import logging as standard_logging
import os
import sys
from collections.abc import Callable

from absl import app, flags, logging

from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, interrupts


def run(main: Callable[..., object], *config_classes: type, takes_words: bool = False) -> None:
    """Parses the command line, runs main and exits.

    For a UserError, a file system error (disk full, read-only, no permission), a wrong flag or an unexpected
    argument, prints one line on standard error and exits with code 1. For Ctrl-C in main, prints one line and
    exits with code 130. --help exits with code 0. Any other error is a bug and prints a traceback. Log lines
    consist of the message alone. Characters that standard output cannot encode, and bytes in file names that
    are not UTF-8, are printed as backslash escapes.

    Args:
        main: called with one config per class, and the words if takes_words; returns an exit code or None.
        config_classes: classes whose fields become flags (see config_flags).
        takes_words: if True, arguments that are not flags (FILE...) are allowed. Otherwise they are rejected,
            because the `False` in `--use_x False` would be ignored.
    """
    if sys.stdout is not None:  # None if standard output is closed
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = logging.get_absl_handler()
    handler.setFormatter(standard_logging.Formatter("%(message)s"))
    # Other libraries' log lines below WARNING do not help users; tf2onnx writes 400 of them in one export.
    handler.addFilter(lambda line: line.name == "absl" or line.levelno > standard_logging.INFO)
    for config_class in config_classes:
        config_flags.define(config_class)

    def guarded(argv: list[str]) -> object:
        try:
            interrupts.raise_again()
            words = argv[1:]
            if words and not takes_words:
                raise errors.UserError(
                    f"unexpected argument {words[0]!r}; write flags as --flag=value, --flag or --noflag"
                )
            configs = map(config_flags.from_flags, config_classes)
            return main(*configs, words) if takes_words else main(*configs)
        except errors.UserError as error:
            return _complain(f"error: {error}", 1)
        except KeyboardInterrupt:
            return _complain("interrupted", interrupts.EXIT_CODE)
        except BrokenPipeError:  # `show | head`
            # Redirected, because Python flushes standard output at exit, which would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
        message = str(error).removeprefix("ERROR:: ")  # absl's prefix if a flag file is missing
        sys.exit(_complain(f"error: {message}; see --help", 1))
    except UnicodeDecodeError:
        sys.exit(_complain("error: --flagfile: the file is not UTF-8 text; see --help", 1))


def _flag_files_first(argv: list[str]) -> list[str]:
    """Moves flag files to the front, because absl uses a flag's last value and the command line must win."""
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
