"""Errors that a user can fix (UserError), and how a program prints them as one sentence and exits."""

from __future__ import annotations

import errno
import itertools
import logging as standard_logging
import os
import re
import sys
from collections.abc import Callable
from typing import Optional

from absl import app, flags, logging

_CHECK_PATH = "pass a path that can be read and written"
_ADVICE = {
    errno.ENOSPC: "free some space; what was finished is kept",
    errno.EDQUOT: "free some space; what was finished is kept",
}
# Not fixed by a restart.
_LASTING = (*_ADVICE, errno.EFBIG, errno.EROFS, errno.EACCES)
# How TensorFlow reports a file that it cannot write: a line "PATH; No space left on device".
_REFUSALS = {os.strerror(code): code for code in _LASTING}
_TENSORFLOW_REFUSAL = re.compile(
    rf"(?m)^(?: *\(\d+\) [A-Z_]+: )?(.+); ({'|'.join(map(re.escape, _REFUSALS))})$"
)


class UserError(ValueError):
    """An error that a user can fix; programs print it as one sentence and exit with code 1.

    Its form is `<where>: <what> is <got>, expected <want>; <what to do>`.
    """


def store_failed(path: str, error: OSError) -> UserError:
    """Returns the error of a disk or store that failed, while the file may be intact."""
    return UserError(
        f"{path}: it cannot be read ({error.strerror or error}), expected a working disk or store; "
        "check it and run the command again: finished shards are kept."
    )


def run_program(
    main: Callable[[list[str]], object], define_flags: Callable[[], object], accepts_words: bool = False
) -> None:
    """Defines the flags, parses the command line, runs main(argv) and exits.

    A UserError, a refusal of the file system (full, read-only, no permission), a wrong flag or an extra word
    is one line on standard error and exit code 1; Ctrl-C in main is one line and 130; --help is 0. Any other
    error is a bug and has a traceback. Log lines consist of the message.

    Args:
      main: takes argv (program name first); returns the exit code or None.
      define_flags: called once, before the command line is parsed.
      accepts_words: whether arguments other than flags (FILE...) are allowed; they are refused otherwise,
        because `--use_x False` would ignore `False`.
    """
    logging.get_absl_handler().setFormatter(standard_logging.Formatter("%(message)s"))
    define_flags()

    def guarded(argv: list[str]) -> object:
        try:
            if len(argv) > 1 and not accepts_words:
                raise UserError(
                    f"command line: argument is {argv[1]!r}, expected flags; write --flag=value or --noflag"
                )
            return main(argv)
        except UserError as error:
            return _complain(f"error: {error}", 1)
        except KeyboardInterrupt:
            return _complain("interrupted", 130)
        except BrokenPipeError:  # `show | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the exit would fail again
            return 1
        except Exception as error:
            refusal = describe_refusal(error)
            if refusal is None:
                raise
            return _complain(f"error: {refusal}", 1)

    app.run(guarded, flags_parser=_parse_flags)


def describe_refusal(error: Exception) -> Optional[str]:
    """Describes a refusal of the file system; returns None for other errors.

    Args:
      error: an OSError, or an OpError of TensorFlow (which is not imported).
    """
    if isinstance(error, OSError) and error.errno is not None:
        where = error.filename or os.path.basename(sys.argv[0])
        return f"{where}: {error.strerror}; {_ADVICE.get(error.errno, _CHECK_PATH)}"
    found = _match_tensorflow(error)
    return found and f"{found[1]}: {found[2]}; {_ADVICE.get(_REFUSALS[found[2]], _CHECK_PATH)}"


def is_lasting(error: Exception) -> bool:
    """Returns whether a restart would fail again: the disk is full or read-only, or permission is missing."""
    is_refused = isinstance(error, OSError) and error.errno in _LASTING
    return is_refused or _match_tensorflow(error) is not None


def _match_tensorflow(error: Exception) -> Optional[re.Match]:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(error).__mro__}
    return _TENSORFLOW_REFUSAL.search(str(error)) if ("tensorflow", "OpError") in names else None


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
    sys.stdout.flush()
    print(message, file=sys.stderr)
    return exit_code
