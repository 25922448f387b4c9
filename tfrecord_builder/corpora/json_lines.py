"""JSON lines, one object a line, also compressed (.gz); their fields, checked.

A `where` is "<file>: line <number>"; it begins every message.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors, files, manifest


def read_objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (where, object) for every line of a file that is not empty.

    Raises:
      UserError: the file cannot be read, or a line is no JSON object.
    """
    lines = _read_compressed(path) if path.endswith(".gz") else manifest.read_lines(path)
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{path}: line {number}", _parse(f"{path}: line {number}", line)


def get_text(where: str, fields: dict[str, Any], name: str, default: Optional[str] = None) -> str:
    """Gives a text field; the default where it is missing or null, if there is a default.

    A whole number counts as its digits: some writers number their speakers.

    Raises:
      UserError: the field is missing, is no text, or is text that neither a file nor a path can hold.
    """
    value = default if fields.get(name) is None else fields[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return ascii(value)
    if not isinstance(value, str) or not _is_usable(value):
        raise errors.UserError(f"{where}: {name} is {_show(value)}, expected text; mend the line.")
    return value


def get_seconds(where: str, fields: dict[str, Any], name: str) -> Optional[float]:
    """Gives a field that counts seconds; None where it is missing or null.

    Raises:
      UserError: the field is no finite number of 0 or more.
    """
    value = fields.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise errors.UserError(
            f"{where}: {name} is {_show(value)}, expected seconds of 0 or more; mend the line."
        )
    return float(value)


def _parse(where: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise errors.UserError(
            f"{where}: {_show(line)} is no JSON object, expected one a line; write the file as JSON lines."
        )
    return found


def _read_compressed(path: str) -> Iterator[str]:
    try:
        with files.open_binary(path) as file, gzip.open(file) as stream:
            yield from io.TextIOWrapper(stream, encoding="utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise errors.UserError(
            f"{path}: it cannot be unpacked ({error}), expected UTF-8 text packed by gzip; copy it again."
        ) from error


def _is_usable(value: str) -> bool:
    """False for what JSON can escape and no file or path holds: half a surrogate pair, the character NUL."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def _show(value: Any) -> str:
    """Shows what was found, short and in ASCII."""
    shown = "missing" if value is None else ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
