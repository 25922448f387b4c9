"""The form of OpenAI's transcriptions: its fields, checked.

https://platform.openai.com/docs/api-reference/audio/createTranscription
"""

from __future__ import annotations

import asyncio
import collections
import logging
import re
from collections.abc import Mapping
from typing import NamedTuple

from python_multipart import multipart
from starlette import datastructures, formparsers

from estimator_asr.hotwords import hotword_list
from estimator_asr.server import api_errors, service
from tfrecord_builder import errors

# Fields that may not be ignored: a pattern of the values that are accepted, and its description.
_FIELDS = {
    "response_format": ("json|text|srt|vtt|verbose_json", "one of json, text, srt, vtt, verbose_json"),
    "timestamp_granularities": ("word|segment", "one of word, segment"),
    "temperature": (r"0|0?\.\d+|0\.|1(\.0*)?|\d(\.\d+)?[eE]-0*[1-9]\d*", "a number from 0 to 1"),
    "stream": ("[Ff]alse|[Tt]rue", "true or false"),
    "chunking_strategy": ("auto", "auto"),
    "include": ("", "no value"),
    "known_speaker_names": ("", "no value"),
    "known_speaker_references": ("", "no value"),
}
_MAX_FIELDS = 100
_PART_BYTES = 1 << 18
_MAX_FIELD_BYTES = 1 << 16
# The parser warns of every malformed form; the client gets a sentence.
for _name in ("python_multipart", "multipart"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class _Parser(formparsers.MultiPartParser):
    """Takes the part `file` for a file also if its header has no `filename`, or only `filename*`."""

    def on_headers_finished(self) -> None:
        part = self._current_part
        if multipart.parse_options_header(part.content_disposition)[1].get(b"name") == b"file":
            part.content_disposition += b'; filename="file"'
        super().on_headers_finished()


class Form(NamedTuple):
    """The fields that count; hotwords are in the form of the graph's input."""

    content: bytes
    response_format: str
    granularities: tuple[str, ...]
    hotwords: tuple[str, ...]
    is_streamed: bool


async def parse(body: bytes | bytearray, headers: Mapping[str, str]) -> Form:
    """Parses a request.

    Raises:
        api_errors.ApiError: it is not such a form, or a field has another value.
        errors.UserError: a hotword has another form.
    """
    if not headers.get("content-type", "").lower().startswith("multipart/form-data"):
        got = repr(headers.get("content-type", "")[:80])
        raise api_errors.refuse(
            f"request: content type is {got}, expected multipart/form-data; send a form with the field file"
        )

    async def stream():
        for start in range(0, len(body), _PART_BYTES):
            await asyncio.sleep(0)  # others have their turn
            yield bytes(body[start : start + _PART_BYTES])

    limits = {"max_files": 1, "max_fields": _MAX_FIELDS, "max_part_size": _MAX_FIELD_BYTES}
    try:
        parser = _Parser(datastructures.Headers(headers), stream(), **limits)
        fields = await parser.parse()
    except (formparsers.MultiPartException, ValueError, LookupError) as error:
        reason = getattr(error, "message", error)
        message = f"request: is not a valid form ({reason}), expected multipart/form-data; fix the form"
        raise api_errors.refuse(message) from None
    try:
        return await _read(fields)
    finally:
        await fields.close()


async def _read(form: datastructures.FormData) -> Form:
    file = form.get("file")
    if not isinstance(file, datastructures.UploadFile):
        raise api_errors.refuse(
            "file: is missing, expected a recording; send it as a file in this field", "file"
        )
    fields = collections.defaultdict(list)
    for name, value in form.multi_items():
        base = name.partition("[")[0]  # without the brackets of lists and objects
        if isinstance(value, str) and value:
            pattern, expected = _FIELDS.get(base, (".*", ""))
            if not re.fullmatch(pattern, value, re.ASCII | re.DOTALL):
                message = f"{name[:80]}: is {value[:80]!r}, expected {expected}; send that, or leave it out"
                raise api_errors.refuse(message, base)
            fields[base].append(value)
    formats = fields["response_format"] or ["json"]
    hotwords = read_hotwords(fields["hotwords"] + fields["keywords"])
    granularities = tuple(fields["timestamp_granularities"])
    is_streamed = fields["stream"][-1:] in (["true"], ["True"])
    return Form(await file.read(), formats[-1], granularities, hotwords, is_streamed)


def read_hotwords(texts: list[str]) -> tuple[str, ...]:
    """Returns hotwords, separated by commas or lines, in the form of the graph's input; errors as `parse`."""
    total, most = sum(map(len, texts)), 2 * service.MAX_HOTWORD_CHARACTERS
    if total > most:
        problem = f"they have {total} characters with their separators, expected at most {most}"
        raise api_errors.refuse(f"hotwords: {problem}; send fewer")
    words = [word for text in texts for word in hotword_list.split(text)]
    service.check_hotwords(words)
    try:
        hotwords = tuple(map(str, hotword_list.read(words, None)))
    except errors.UserError as error:
        raise api_errors.refuse(str(error).removeprefix("--")) from None
    service.check_hotwords(hotwords)
    return hotwords
