"""The form of OpenAI's transcriptions: its fields, checked.

https://platform.openai.com/docs/api-reference/audio/createTranscription
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import NamedTuple

from starlette import datastructures, exceptions, requests

from estimator_asr import hotword_list
from estimator_asr.server import api_errors, hotword_limits
from tfrecord_builder import errors

FORMATS = ("json", "text", "srt", "vtt", "verbose_json")
GRANULARITIES = ("word", "segment")
_MAX_FIELDS = 100
_PART_BYTES = 1 << 18
_MAX_FIELD_BYTES = 1 << 16
# The parser warns of every malformed form; the client gets a sentence.
for _name in ("python_multipart", "multipart"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)
_SEPARATORS = re.compile(r"[\n,，]")


class Form(NamedTuple):
    """The fields that count; hotwords are in the form of the graph's input."""

    content: bytes
    response_format: str
    granularities: tuple[str, ...]
    language: str
    hotwords: tuple[str, ...]


async def parse(body: bytes | bytearray, headers: Mapping[str, str]) -> Form:
    """Parses a request.

    Raises:
        api_errors.ApiError: it is not such a form, or a field has another value.
        errors.UserError: a hotword has another form.
    """
    if not headers.get("content-type", "").startswith("multipart/form-data"):
        got = repr(headers.get("content-type", "")[:80])
        raise api_errors.refuse(
            f"request: content type is {got}, expected multipart/form-data; send a form with the field file"
        )

    parts = iter(range(0, len(body), _PART_BYTES))

    async def receive():
        await asyncio.sleep(0)  # others have their turn
        start = next(parts, len(body))
        is_last = start + _PART_BYTES >= len(body)
        return {
            "type": "http.request",
            "body": bytes(body[start : start + _PART_BYTES]),
            "more_body": not is_last,
        }

    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    request = requests.Request({"type": "http", "headers": raw, "app": None}, receive)
    try:
        fields = await request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES)
    except (exceptions.HTTPException, ValueError, LookupError) as error:
        reason = getattr(error, "detail", error)
        message = f"request: is not a valid form ({reason}), expected multipart/form-data; fix the form"
        raise api_errors.refuse(message) from None
    try:
        return await _read(fields)
    finally:
        await fields.close()


async def _read(fields: datastructures.FormData) -> Form:
    file = fields.get("file")
    if not isinstance(file, datastructures.UploadFile):
        raise api_errors.refuse("file: is missing, expected a recording; send it as a file in this field")
    if _get(fields, "stream").lower() == "true":
        raise api_errors.refuse("stream: is true, expected false; the transcript is sent as a whole")
    granularities = tuple(
        value
        for name in ("timestamp_granularities[]", "timestamp_granularities")
        for value in _list(fields, name)
    )
    for value in granularities:
        _check("timestamp_granularities[]", value, GRANULARITIES)
    response_format = _get(fields, "response_format") or FORMATS[0]
    _check("response_format", response_format, FORMATS)
    return Form(
        await file.read(), response_format, granularities, _get(fields, "language"), _read_hotwords(fields)
    )


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        expected = ", ".join(choices)
        raise api_errors.refuse(f"{name}: is {value[:80]!r}, expected one of {expected}; send one of them")


def _get(fields: datastructures.FormData, name: str) -> str:
    return (_list(fields, name) or [""])[-1]


def _list(fields: datastructures.FormData, name: str) -> list[str]:
    return [value for value in fields.getlist(name) if isinstance(value, str)]


def _read_hotwords(fields: datastructures.FormData) -> tuple[str, ...]:
    """Hotwords are separated by commas or lines."""
    texts = _list(fields, "hotwords")
    hotword_limits.check_texts(texts)
    given = [word.strip() for text in texts for word in _SEPARATORS.split(text)]
    words = [word for word in given if word]
    hotword_limits.check(words)
    try:
        found = tuple(map(str, hotword_list.read(words, None)))
    except errors.UserError as error:
        raise api_errors.refuse(str(error).removeprefix("--")) from None
    hotword_limits.check(found)
    return found
