"""The lines of an ARPA file, plain or .gz: a position in them, and errors that name a line."""

from __future__ import annotations

import gzip
import zlib

from tfrecord_builder import errors
from tfrecord_builder.storage import files

ADVICE = "copy or write the file again"
_GZIP_START = b"\x1f\x8b"


class Lines:
    """The lines of a file and a position in them; blank lines are skipped."""

    def __init__(self, path: str):
        """Raises errors.UserError if the file cannot be read."""
        self.path, self.lines, self.next = path, _read_bytes(path).split(b"\n"), 0

    def peek(self) -> bytes:
        """Returns the next line that is not blank, without its ends; b"" at the end of the file."""
        while self.next < len(self.lines) and not self.lines[self.next].strip():
            self.next += 1
        return self.lines[self.next].strip() if self.next < len(self.lines) else b""

    def expect(self, want: bytes) -> None:
        """Moves after the next line, which must be `want`."""
        if self.peek() != want:
            raise self.unexpected(want.decode())
        self.next += 1

    def unexpected(self, want: str) -> errors.UserError:
        """Returns the error that the next line is not what was expected."""
        got = self.peek()
        if not got:
            return errors.UserError(f"{self.path}: ends too early, expected {want}; {ADVICE}")
        return self.error(self.next, f"{quote(got)}, expected {want}; {ADVICE}")

    def error(self, index: int, said: str) -> errors.UserError:
        """Returns the error of a line, counted from 0."""
        return errors.UserError(f"{self.path}: line {index + 1}: {said}")


def quote(text: bytes) -> str:
    """Returns a text of a file for a message, shortened."""
    shown = text.decode(errors="replace")
    return repr(shown if len(shown) <= 60 else f"{shown[:60]}...")


def _read_bytes(path: str) -> bytes:
    try:
        with files.open_binary(path) as file:
            content = file.read()
        return gzip.decompress(content) if content.startswith(_GZIP_START) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise errors.UserError(f"{path}: gzip file is damaged ({error}); {ADVICE}") from error
    except OSError as error:
        raise errors.UserError(
            f"{path}: n-gram model cannot be read ({error.strerror}); pass the path of an ARPA file"
        ) from error
