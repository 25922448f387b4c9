"""Runs a command-line program: makes configs from its flags, and prints errors that a user can fix."""

from __future__ import annotations

import itertools
import logging as standard_logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Optional

from absl import app, flags, logging

from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, interrupts


def run(
    main: Callable[..., object],
    *config_classes: type[config_flags.Checked],
    takes_words: bool = False,
    groups: Optional[Mapping[str, Sequence[str]]] = None,
) -> None:
    """Parses the command line, runs main and exits.

    For a UserError, a file system error (disk full, read-only, no permission), a wrong flag or an unexpected
    argument, prints one line on standard error and exits with code 1. For Ctrl-C in main, prints one line and
    exits with code 130. --help exits with code 0. Any other error is a bug and prints a traceback. Log lines
    consist of the message alone. Characters that standard output cannot encode, and bytes in file names that
    are not UTF-8, are printed as backslash escapes.

    Args:
        main: called with one config per class and, if takes_words, a list of words; returns an exit code or
            None.
        config_classes: classes whose fields become flags (see config_flags).
        takes_words: if True, arguments that are not flags (FILE...) are allowed. Otherwise they are rejected,
            because the `False` in `--use_x False` would be ignored.
        groups: {heading: flags} for --help; only --helpfull lists the other flags. If None, --help lists all.
    """
    if sys.stdout is not None:  # None if standard output is closed
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = logging.get_absl_handler()
    handler.setFormatter(standard_logging.Formatter("%(message)s"))
    # Other libraries' log lines below WARNING do not help users; tf2onnx writes 400 of them in one export.
    handler.addFilter(lambda line: line.name == "absl" or line.levelno > standard_logging.INFO)
    removed = {}
    for config_class in config_classes:
        config_flags.define(config_class, groups=groups)
        removed.update(config_flags.find_removed(config_class))
    app.define_help_flags()
    for name in ("help", "helpshort"):
        flags.DEFINE_flag(_Help(name, groups or [sys.argv[0]]), module_name="absl.app")

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
        except BrokenPipeError:  # `show | head`, for example
            # Standard output is redirected, because Python flushes it at exit, which would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except Exception as error:
            refusal = errors.describe_refusal(error)
            if refusal is None:
                raise
            return _complain(f"error: {refusal}", 1)

    app.run(guarded, flags_parser=lambda argv: _parse_flags(argv, removed))


class _Help(flags.BooleanFlag):
    """A --help flag that lists flags under several headings; absl's own lists only one module's flags."""

    def __init__(self, name: str, headings: Iterable[str]):
        super().__init__(name, False, "show this help", allow_override=True)
        self.headings = headings

    def parse(self, argument: object) -> None:
        super().parse(argument)
        if self.value:
            print(sys.modules["__main__"].__doc__, "\nflags:", sep="")
            print(*map(flags.FLAGS.module_help, self.headings), sep="\n")
            print("\nTry --helpfull to get a list of all flags.")
            sys.exit(0)


def _parse_flags(argv: list[str], removed: Mapping[str, str]) -> list[str]:
    try:
        return flags.FLAGS(_flag_files_first(argv))
    except SystemExit:  # raised by --help and similar flags
        sys.exit(0)
    except flags.UnrecognizedFlagError as error:
        name = error.flagname if error.flagname in removed else error.flagname.removeprefix("no")
        message = f"--{name} no longer exists; {removed[name]}" if name in removed else f"{error}; see --help"
        sys.exit(_complain(f"error: {message}", 1))
    except flags.Error as error:
        message = str(error).removeprefix("ERROR:: ")  # absl adds it if a flag file is missing
        sys.exit(_complain(f"error: {message}; see --help", 1))
    except UnicodeDecodeError:
        sys.exit(_complain("error: --flagfile: the file is not UTF-8 text; see --help", 1))


def _flag_files_first(argv: list[str]) -> list[str]:
    """Moves flag files to the front, so that the command line overrides them: a flag's last value counts."""
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
