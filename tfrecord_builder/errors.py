"""Errors that a user can fix: UserError, and one-sentence descriptions of file system errors."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Collection
from typing import Optional

_CHECK_PATH = "pass a path that can be read and written"
_ADVICE = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space; finished work is kept")
# Error codes of problems that persist after a restart.
_LASTING = (*_ADVICE, errno.EFBIG, errno.EROFS, errno.EACCES)
# If TensorFlow cannot write a file, its message contains a line such as "PATH; No space left on device".
_REFUSALS = {os.strerror(code): code for code in _LASTING}
_TENSORFLOW_REFUSAL = re.compile(
    rf"(?m)^(?: *\(\d+\) [A-Z_]+: )?(.+); ({'|'.join(map(re.escape, _REFUSALS))})$"
)


class UserError(ValueError):
    """An error that a user can fix; programs print its message and exit with code 1.

    The message says where the problem is, what is wrong and what to do.
    """


def store_failed(path: str, error: OSError) -> UserError:
    """Returns an error that blames a file's disk or object store; the file itself may be intact."""
    return UserError(
        f"{path} cannot be read ({error.strerror or error}); check the disk or object store, then run the "
        "command again. Finished work is kept."
    )


def library_missing(user: str, error: ImportError, extra: str) -> UserError:
    """Returns an error that says which library `user` needs and which pip extra installs it."""
    return UserError(
        f"{user} needs {error.name}, which cannot be imported; run pip install 'estimator-asr[{extra}]'"
    )


def describe_refusal(error: Exception) -> Optional[str]:
    """Describes an OSError, or a TensorFlow OpError about a file that cannot be written.

    Returns None for other errors.
    """
    if isinstance(error, OSError) and error.errno is not None:
        where = error.filename or os.path.basename(sys.argv[0])
        return f"{where}: {error.strerror}; {_ADVICE.get(error.errno, _CHECK_PATH)}"
    refusal = _match_tensorflow(error)
    return refusal and f"{refusal[1]}: {refusal[2]}; {_ADVICE.get(_REFUSALS[refusal[2]], _CHECK_PATH)}"


def is_lasting(error: Exception) -> bool:
    """Returns True if a restart would fail too: the disk is full or read-only, or access is denied."""
    is_refused = isinstance(error, OSError) and error.errno in _LASTING
    return is_refused or _match_tensorflow(error) is not None


def _match_tensorflow(error: Exception) -> Optional[re.Match]:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(error).__mro__}
    return _TENSORFLOW_REFUSAL.search(str(error)) if ("tensorflow", "OpError") in names else None


def list_examples(words: Collection[str]) -> str:
    """Returns the first five words in sorted order, separated by commas, for a message."""
    return ", ".join(sorted(words)[:5]) + (", ..." if len(words) > 5 else "")
