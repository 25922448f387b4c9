"""Errors that a user can fix: UserError, and what the file system refuses as one sentence."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Collection
from typing import Optional

_CHECK_PATH = "pass a path that can be read and written"
_ADVICE = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space; what was finished is kept")
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
        "check it and run the command again: finished work is kept."
    )


def describe_refusal(error: Exception) -> Optional[str]:
    """Describes an OSError, or an OpError of TensorFlow of a refused file; returns None for other errors."""
    if isinstance(error, OSError) and error.errno is not None:
        where = error.filename or os.path.basename(sys.argv[0])
        return f"{where}: {error.strerror}; {_ADVICE.get(error.errno, _CHECK_PATH)}"
    refusal = _match_tensorflow(error)
    return refusal and f"{refusal[1]}: {refusal[2]}; {_ADVICE.get(_REFUSALS[refusal[2]], _CHECK_PATH)}"


def is_lasting(error: Exception) -> bool:
    """Returns whether a restart would fail again: the disk is full or read-only, or permission is missing."""
    is_refused = isinstance(error, OSError) and error.errno in _LASTING
    return is_refused or _match_tensorflow(error) is not None


def _match_tensorflow(error: Exception) -> Optional[re.Match]:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(error).__mro__}
    return _TENSORFLOW_REFUSAL.search(str(error)) if ("tensorflow", "OpError") in names else None


def list_examples(words: Collection[str]) -> str:
    """Returns the first five words in their order, for a message, separated by commas."""
    return ", ".join(sorted(words)[:5]) + (", ..." if len(words) > 5 else "")
