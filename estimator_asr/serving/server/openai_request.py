"""Parses and checks the form of an OpenAI transcription request.

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

from estimator_asr.decoding.hotwords import hotword_list
from estimator_asr.serving.server import api_errors, service
from estimator_asr.serving.transcripts import captions, written_text

_FORMATS = ("json", "text", *captions.CAPTIONS, "verbose_json")
# Maps each field whose value is checked to a pattern for the supported values and a description of them.
_FIELDS = {
    "response_format": ("|".join(_FORMATS), f"one of {', '.join(_FORMATS)}"),
    "timestamp_granularities": ("word|segment", "one of word, segment"),
    "temperature": (r"0|0?\.\d+|0\.|1(\.0*)?|\d(\.\d+)?[eE]-0*[1-9]\d*", "a number from 0 to 1"),
    "text_form": ("|".join(written_text.FORMS), f"one of {', '.join(written_text.FORMS)}"),
    "stream": ("[Ff]alse|[Tt]rue", "true or false"),
    "chunking_strategy": ("auto", "auto"),
    "include": ("", "no value"),
    "known_speaker_names": ("", "no value"),
    "known_speaker_references": ("", "no value"),
}
_MAX_FIELDS = 100
_PART_BYTES = 1 << 18
_MAX_FIELD_BYTES = 1 << 16
# The parser logs a warning for every malformed form, although the client already gets an error message.
for _name in ("python_multipart", "multipart"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class _Parser(formparsers.MultiPartParser):
    """Treats the form part `file` as a file, even if its header contains only `filename*` or no file name."""

    def on_headers_finished(self) -> None:
        part = self._current_part
        if multipart.parse_options_header(part.content_disposition)[1].get(b"name") == b"file":
            part.content_disposition += b'; filename="file"'
        super().on_headers_finished()


class Form(NamedTuple):
    """The form fields that the server uses; `hotwords` have the format of the graph's input."""

    content: bytes
    response_format: str
    granularities: tuple[str, ...]
    hotwords: tuple[str, ...]
    is_streamed: bool
    is_plain: bool  # True if the text has neither marks nor numbers in digits, whatever the export
    text: str = ""  # used by /v1/align only


async def parse(body: bytes | bytearray, headers: Mapping[str, str]) -> Form:
    """Parses the body of a transcription request.

    Raises api_errors.ApiError or errors.UserError if the form, a field or a hotword is invalid.
    """
    if not headers.get("content-type", "").lower().startswith("multipart/form-data"):
        got = repr(headers.get("content-type", "")[:80])
        raise api_errors.refuse(
            f"the content type is {got}, expected multipart/form-data; send a form with a field named file"
        )

    async def stream():
        for start in range(0, len(body), _PART_BYTES):
            await asyncio.sleep(0)  # lets other requests run
            yield bytes(body[start : start + _PART_BYTES])

    limits = {"max_files": 1, "max_fields": _MAX_FIELDS, "max_part_size": _MAX_FIELD_BYTES}
    try:
        parser = _Parser(datastructures.Headers(headers), stream(), **limits)
        fields = await parser.parse()
    except (formparsers.MultiPartException, ValueError, LookupError) as error:
        reason = getattr(error, "message", error)
        message = f"the request is not valid multipart/form-data ({reason}); fix the form"
        raise api_errors.refuse(message) from None
    try:
        return await _read(fields)
    finally:
        await fields.close()


async def _read(form: datastructures.FormData) -> Form:
    file = form.get("file")
    if not isinstance(file, datastructures.UploadFile):
        raise api_errors.refuse(
            "the form has no field named file; send the recording as a file in this field", "file"
        )
    fields = collections.defaultdict(list)
    for name, value in form.multi_items():
        base = name.partition("[")[0]  # drops the brackets of names such as timestamp_granularities[]
        if isinstance(value, str) and value:
            pattern, expected = _FIELDS.get(base, (".*", ""))
            if not re.fullmatch(pattern, value, re.ASCII | re.DOTALL):
                message = f"{name[:80]} is {value[:80]!r}, expected {expected}; fix or omit the field"
                raise api_errors.refuse(message, base)
            fields[base].append(value)
    formats = fields["response_format"] or ["json"]
    hotwords = read_hotwords(fields["hotwords"] + fields["keywords"])
    granularities = tuple(fields["timestamp_granularities"])
    is_streamed = fields["stream"][-1:] in (["true"], ["True"])
    is_plain = fields["text_form"][-1:] == [written_text.PLAIN]
    text = "\n".join(fields["text"])
    return Form(await file.read(), formats[-1], granularities, hotwords, is_streamed, is_plain, text)


def read_hotwords(texts: list[str]) -> tuple[str, ...]:
    """Splits texts at commas and line breaks; returns the hotwords for the graph.

    Raises api_errors.ApiError if there are too many hotwords, or they are too long, and errors.UserError if a
    hotword is malformed.
    """
    total, most = sum(map(len, texts)), 2 * service.MAX_HOTWORD_CHARACTERS
    if total > most:
        problem = f"the hotwords and their separators have {total} characters, expected at most {most}"
        raise api_errors.refuse(f"{problem}; send fewer hotwords")
    words = [word for text in texts for word in hotword_list.split(text)]
    service.check_hotwords(words)
    hotwords = tuple(map(str, hotword_list.read_words(words, "hotwords")))
    service.check_hotwords(hotwords)
    return hotwords
