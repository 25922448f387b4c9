import errno
import os

import pytest

from tfrecord_builder import errors


def test_the_path_is_found_in_errors_of_tensorflow():
    error = type("OpError", (Exception,), {"__module__": "tensorflow.python.framework.errors_impl"})
    message = "2 root error(s) found.\n  (0) RESOURCE_EXHAUSTED: /am/part; No space left on device\n [[node]]"
    described = "/am/part: No space left on device; free some space; finished work is kept"
    assert errors.describe_refusal(error(message)) == described


_LASTING = (errno.ENOSPC, errno.EROFS, errno.EACCES)


@pytest.mark.parametrize("code", [*_LASTING, errno.ECONNRESET, errno.EIO])
def test_errors_that_a_restart_does_not_fix_are_lasting(code):
    assert errors.is_lasting(OSError(code, os.strerror(code))) == (code in _LASTING)
