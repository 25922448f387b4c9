import errno
import os

import pytest

from tfrecord_builder import errors


def test_the_path_is_found_in_errors_of_tensorflow():
    error = type("OpError", (Exception,), {"__module__": "tensorflow.python.framework.errors_impl"})
    both = (
        "2 root error(s) found.\n  (0) RESOURCE_EXHAUSTED: /am/part; No space left on device\n\t [[node a]]"
    )
    assert errors.describe_refusal(error(both)) == (
        "/am/part: No space left on device; free some space; finished work is kept"
    )


@pytest.mark.parametrize(
    "code, is_lasting",
    [
        (errno.ENOSPC, True),
        (errno.EROFS, True),
        (errno.EACCES, True),
        (errno.ECONNRESET, False),
        (errno.EIO, False),
    ],
)
def test_errors_that_a_restart_does_not_fix_are_lasting(code, is_lasting):
    assert errors.is_lasting(OSError(code, os.strerror(code))) == is_lasting
