"""Reads JSON Lines or a JSON list of objects, optionally compressed (.gz), and checks the types of fields.

Every error message starts with `where`: "<file>: line <number>" or, in a list, "<file>: object <number>".
"""

from __future__ import annotations

import gzip
import itertools
import re
import zlib
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import text_files
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files


def read_objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (where, object) for every object in a file; a file that starts with [ is read as a list.

    Raises errors.UserError if the file cannot be read or contains anything but JSON objects.
    """
    lines = _read_compressed(path) if path.endswith(".gz") else text_files.read_lines(path)
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        return
    if first[1].lstrip().startswith("["):
        text = "\n".join([first[1], *(line for _, line in numbered)])
        for number, fields in enumerate(_parse(path, text, list, "list of objects"), 1):
            yield f"{path}: object {number}", _require_object(f"{path}: object {number}", fields)
        return
    for number, line in itertools.chain([first], numbered):
        yield f"{path}: line {number}", _parse(f"{path}: line {number}", line, dict, "object")


def read_named_objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (where, value) for every value in a file's single JSON object; the key becomes the value's id.

    Raises errors.UserError if the file cannot be read or is not an object whose values are objects.
    """
    text = "\n".join(text_files.read_lines(path))
    for name, fields in _parse(path, text, dict, "object of named objects").items():
        where = f"{path}: {name!r}"
        yield where, {**_require_object(where, fields), "id": name}


def get_text(where: str, fields: dict[str, Any], name: str, default: Optional[str] = None) -> str:
    """Returns a text field, or the default if the field is missing or null; integers are converted to text.

    Raises errors.UserError if the field is missing and has no default, is not text, or contains characters
    that cannot occur in a path.
    """
    value = default if fields.get(name) is None else fields[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    # JSON can escape characters that no path can contain: lone surrogates and NUL.
    if not isinstance(value, str) or re.search("[\0\ud800-\udfff]", value):
        raise errors.UserError(f"{where}: {name} is {_show(value)}, expected text; fix the line.")
    return value


def _parse(where: str, text: str, wanted: type, name: str) -> Any:
    try:
        value = config_json.parse(text)
    except ValueError:
        value = None
    if not isinstance(value, wanted):
        raise errors.UserError(f"{where}: {_show(text)} is not a valid JSON {name}; write the file again.")
    return value


def _require_object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise errors.UserError(f"{where}: {_show(value)} is not a JSON object; write the file again.")
    return value


def _read_compressed(path: str) -> Iterator[str]:
    try:
        with files.open_binary(path) as file, gzip.open(file, "rt", encoding="utf-8-sig") as lines:
            yield from lines
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise errors.UserError(
            f"{path} is not valid gzip-compressed UTF-8 text ({error}); copy the file again."
        ) from error


def _show(value: Any) -> str:
    shown = "missing" if value is None else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
