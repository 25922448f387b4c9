"""What a user can mend (UserError), and how every program turns it into one sentence and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

from absl import app, flags

_LOOK = "give a path that can be read and written"
_ADVICE = {
    errno.ENOSPC: "make room; what was finished is kept",
    errno.EDQUOT: "make room; what was finished is kept",
}


class UserError(ValueError):
    """What a user can mend; programs print it as one sentence and exit 1.

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
    word is one line on standard error and exit code 1; Ctrl-C is one line and 130. Everything else is a bug
    and keeps its traceback.

    Args:
      main: takes argv (program name first); an int that it returns is the exit code.
      define_flags: called once before the command line is parsed.
      accepts_words: whether words that are no flags (FILE...) may follow; else they are refused, because
        `--use_x False` would leave `False` behind unnoticed.
    """
    define_flags()

    def guarded(argv: list[str]) -> object:
        try:
            if len(argv) > 1 and not accepts_words:
                words = " ".join(argv[1:])
                raise UserError(
                    f"command line: {words!r} is no flag; write --flag=value, --switch or --noswitch"
                )
            return main(argv)
        except UserError as error:
            return _complain(f"error: {error}", 1)
        except KeyboardInterrupt:
            return _complain("interrupted", 130)
        except BrokenPipeError:  # as of `show | head`: nobody reads on, and nobody need be told
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the exit would try again
            return 1
        except OSError as error:
            if error.errno is None:
                raise
            where = error.filename or os.path.basename(sys.argv[0])
            return _complain(f"error: {where}: {error.strerror}; {_ADVICE.get(error.errno, _LOOK)}", 1)

    app.run(guarded, flags_parser=_parse_flags)


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        message = str(error).removeprefix("ERROR:: ")  # absl's own, before a flagfile that is not there
        sys.exit(_complain(f"error: {message}; see --help", 1))


def _complain(message: str, exit_code: int) -> int:
    sys.stdout.flush()
    print(message, file=sys.stderr)
    return exit_code
