"""What a user can fix (UserError), and how every program turns it into one sentence and an exit code."""

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

_LOOK = "give a path that can be read and written"
_ADVICE = {
    errno.ENOSPC: "make room; what was finished is kept",
    errno.EDQUOT: "make room; what was finished is kept",
}
# A restart changes nothing about these.
_LASTING = (*_ADVICE, errno.EFBIG, errno.EROFS, errno.EACCES)
# What TensorFlow says of a file that it cannot write: "PATH; No space left on device" on a line.
_REFUSALS = {os.strerror(code): code for code in _LASTING}
_TENSORFLOW_REFUSAL = re.compile(
    rf"(?m)^(?: *\(\d+\) [A-Z_]+: )?(.+); ({'|'.join(map(re.escape, _REFUSALS))})$"
)


class UserError(ValueError):
    """What a user can fix; programs print it as one sentence and exit 1.

    The form is `<where>: <what> is <got>, expected <want>; <what to do>`.
    """


def store_failed(path: str, error: OSError) -> UserError:
    """Says that not the file is at fault but the disk or the store that holds it."""
    return UserError(
        f"{path}: it cannot be read ({error.strerror or error}), expected its disk or store to answer; "
        "check them and call the program again: finished shards are kept."
    )


def run_program(
    main: Callable[[list[str]], object], define_flags: Callable[[], object], accepts_words: bool = False
) -> None:
    """Defines the flags, parses the command line, runs main(argv) and exits.

    A UserError, what the file system refuses (full, read-only, not permitted), a wrong flag or a leftover
    word is one line on standard error and exit code 1; Ctrl-C is one line and 130; --help is 0. Everything
    else is a bug and keeps its traceback. Log lines are the message alone.

    Args:
      main: takes argv (program name first); an int that it returns is the exit code.
      define_flags: called once before the command line is parsed.
      accepts_words: whether words that are no flags (FILE...) may follow; else they are refused, because
        `--use_x False` would leave `False` behind unnoticed.
    """
    logging.get_absl_handler().setFormatter(standard_logging.Formatter("%(message)s"))
    define_flags()

    def guarded(argv: list[str]) -> object:
        try:
            if len(argv) > 1 and not accepts_words:
                raise UserError(
                    f"command line: {argv[1]!r} is no flag; write --flag=value, --switch or --noswitch"
                )
            return main(argv)
        except UserError as error:
            return _complain(f"error: {error}", 1)
        except KeyboardInterrupt:
            return _complain("interrupted", 130)
        except BrokenPipeError:  # as of `show | head`: nobody reads on, and nobody need be told
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the exit would try again
            return 1
        except Exception as error:
            refusal = describe_refusal(error)
            if refusal is None:
                raise
            return _complain(f"error: {refusal}", 1)

    app.run(guarded, flags_parser=_parse_flags)


def describe_refusal(error: Exception) -> Optional[str]:
    """Returns in a sentence what the file system refused; None if the error is of another kind.

    Args:
      error: an OSError, or an OpError of TensorFlow, which is not imported for that.
    """
    if isinstance(error, OSError) and error.errno is not None:
        where = error.filename or os.path.basename(sys.argv[0])
        return f"{where}: {error.strerror}; {_ADVICE.get(error.errno, _LOOK)}"
    found = _match_tensorflow(error)
    return found and f"{found[1]}: {found[2]}; {_ADVICE.get(_REFUSALS[found[2]], _LOOK)}"


def is_lasting(error: Exception) -> bool:
    """Returns whether a restart would meet it again: a disk that is full or read-only, or no permission."""
    is_refused = isinstance(error, OSError) and error.errno in _LASTING
    return is_refused or _match_tensorflow(error) is not None


def _match_tensorflow(error: Exception) -> Optional[re.Match]:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(error).__mro__}
    return _TENSORFLOW_REFUSAL.search(str(error)) if ("tensorflow", "OpError") in names else None


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(_flag_files_first(argv))
    except SystemExit:  # --help and its like have printed what was asked for
        sys.exit(0)
    except flags.Error as error:
        message = str(error).removeprefix("ERROR:: ")  # absl's own, before a flagfile that is not there
        sys.exit(_complain(f"error: {message}; see --help", 1))
    except UnicodeDecodeError:
        sys.exit(_complain("error: --flagfile: it is not UTF-8, expected a file of flags; give another", 1))


def _flag_files_first(argv: list[str]) -> list[str]:
    """Of two equal flags absl takes the last, so the command line beats a flag file wherever it stands."""
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
