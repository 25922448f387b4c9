"""JSON lines or one JSON list of objects, also compressed (.gz); their fields, checked.

A `where` is "<file>: line <number>", or "<file>: object <number>" in a list; it begins every message.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors, files, manifest

_MAX_SECONDS = 1e9  # thirty years


def read_objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (where, object) for every object of a file, which is a list if it begins with a bracket.

    Raises:
      UserError: the file cannot be read, or holds something else than JSON objects.
    """
    lines = _read_compressed(path) if path.endswith(".gz") else manifest.read_lines(path)
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, (1, ""))
    if first[1].lstrip().startswith("["):
        yield from _parse_list(path, [first[1], *(line for _, line in numbered)])
        return
    for number, line in itertools.chain([first] if first[1] else [], numbered):
        yield f"{path}: line {number}", _parse(f"{path}: line {number}", line)


def read_named_objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (where, object) for every object of a file that is one object of named ones; the name is its id.

    Raises:
      UserError: the file cannot be read, or holds something else.
    """
    try:
        found = json.loads("\n".join(manifest.read_lines(path)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(fields, dict) for fields in found.values()):
        raise errors.UserError(
            f'{path}: it is not a JSON object of named objects, expected {{"u1": {{...}}, "u2": {{...}}}} as '
            "SpeechBrain has; write other lists with an object per line, as .jsonl."
        )
    for name, fields in found.items():
        yield f"{path}: {ascii(name)}", {**fields, "id": name}


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
        raise errors.UserError(f"{where}: {name} is {_show(value)}, expected text; fix the line.")
    return value


def get_seconds(where: str, fields: dict[str, Any], name: str, is_signed: bool = False) -> Optional[float]:
    """Returns a field that counts seconds; None where it is missing or null.

    Raises:
      UserError: the field is not a number, too large, or below 0 and not signed.
    """
    value = fields.get(name)
    if value is None:
        return None
    lowest = -_MAX_SECONDS if is_signed else 0.0
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not lowest <= value <= _MAX_SECONDS:
        raise errors.UserError(
            f"{where}: {name} is {_show(value)}, expected seconds, {lowest:g} to {_MAX_SECONDS:g}; "
            "fix the line."
        )
    return float(value)


def _parse(where: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise errors.UserError(
            f"{where}: {_show(line)} is not a JSON object, expected one a line; write the file as JSON lines."
        )
    return found


def _parse_list(path: str, lines: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        found = json.loads("\n".join(lines))
    except (ValueError, RecursionError) as error:
        raise errors.UserError(
            f"{path}: it begins with [ and is not a valid JSON list ({error}), expected a list of objects or "
            "one object per line; write the file again."
        ) from None
    for number, each in enumerate(found, 1):
        if not isinstance(each, dict):
            raise errors.UserError(
                f"{path}: object {number} is {_show(each)}, expected a JSON object; write the file again."
            )
        yield f"{path}: object {number}", each


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
