"""OpenAI's audio transcriptions, so that its clients work with this server.

https://platform.openai.com/docs/api-reference/audio
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from starlette import requests, responses, routing

from estimator_asr.saved_model import statuses
from estimator_asr.server import api_errors, item_queue, openai_request, service, tensorflow_api, versions
from estimator_asr.transcripts import captions, pauses

_CAPTIONS = {"text": captions.to_text, "srt": captions.to_srt, "vtt": captions.to_vtt}
_NOTHING = {**captions.join([]), "status": statuses.SILENT, "n_best": []}


class OpenAIApi:
    """The routes /v1/audio/transcriptions and /v1/models."""

    def __init__(self, parts: service.Service):
        self._parts = parts

    def list_routes(self) -> list[routing.Route]:
        return [
            routing.Route("/v1/audio/transcriptions", self.transcribe, methods=["POST"]),
            routing.Route("/v1/models", self.show_models, methods=["GET"]),
        ]

    async def show_models(self, _: requests.Request) -> responses.Response:
        models = [tensorflow_api.describe(self._parts.versions.current)]
        return responses.JSONResponse({"object": "list", "data": models})

    async def transcribe(self, request: requests.Request) -> responses.Response:
        async with self._parts.bodies.read(request) as body:
            form = await openai_request.parse(body, request.headers)
            body.clear()  # the form has a copy of the file
            with self._parts.versions.current.used() as version:
                decoding = self._parts.decoder.decode(form.content, version.sample_rate)
                upload = await service.while_connected(request, decoding)
                batch = [_make_item(version, piece, form.hotwords) for piece in upload.pieces]
                results = await self._parts.recognise(request, batch)
        segments = []
        for piece, result in zip(upload.pieces, results):
            places = piece.start, piece.start + len(piece.waveform)
            segments.append(captions.Segment(*(place / version.sample_rate for place in places), result))
        # Characters or subwords may be of any language, pinyin is of one.
        is_chinese = bool(version.info.language) or version.info.token_type not in ("character", "bpe")
        return _respond(form, segments, upload.seconds, is_chinese)


def _make_item(
    version: versions.ServedVersion, piece: pauses.Piece, hotwords: tuple[str, ...]
) -> item_queue.Item:
    signature = f"waveform_{versions.HOTWORDS}" if hotwords else "waveform"
    if signature not in version.definitions:
        raise api_errors.refuse(
            "hotwords: the model takes none, expected a model of syllables that searches with a beam; "
            "leave them out"
        )
    num_samples = len(piece.waveform)
    row = {"waveform": piece.waveform, "num_samples": np.int32(num_samples)}
    group = item_queue.Group(version, signature, hotwords)
    return item_queue.Item(group, row, num_samples / version.sample_rate)


def _respond(
    form: openai_request.Form, segments: Sequence[captions.Segment], seconds: float, is_chinese: bool
) -> responses.Response:
    """Returns the response for a recording of so many seconds; no segments: it has no speech."""
    if form.response_format in _CAPTIONS:
        media_type = "text/vtt" if form.response_format == "vtt" else "text/plain"
        return responses.Response(_CAPTIONS[form.response_format](segments), media_type=media_type)
    joined = captions.join(segments) if segments else _NOTHING
    content = {"text": joined["transcript"]}
    if form.response_format == "verbose_json":
        language = "zh" if is_chinese else "und"  # ISO 639: undetermined
        head = {"task": "transcribe", "language": language, "duration": round(seconds, 3)}
        content = {**head, **_describe(form.granularities, segments, joined)}
    return responses.JSONResponse(content)


def _describe(granularities: Sequence[str], segments: Sequence[captions.Segment], joined: dict) -> dict:
    """verbose_json, with the outputs of this project beside OpenAI's: status, pinyin and so on."""
    names = ("status", "pinyin", "confidence", "characters", "n_best")
    content = {"text": joined["transcript"], **{name: joined[name] for name in names}}
    if "word" in granularities:
        content["words"] = [
            {"word": each["character"], "start": each["start"], "end": each["end"]}
            for each in joined["characters"]
        ]
    if "segment" in granularities or not granularities:
        content["segments"] = [_describe_segment(i, each) for i, each in enumerate(segments)]
    return content


def _describe_segment(index: int, segment: captions.Segment) -> dict:
    text = segment.result["transcript"]
    encoded = text.encode()
    num_tokens = max(1, len(segment.result["characters"]))
    return {
        "id": index,
        "seek": round(100 * segment.start),  # as Whisper has it, in frames of 10 ms
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": text,
        "tokens": [],  # of Whisper's vocabulary
        "temperature": 0.0,
        "avg_logprob": segment.result["acoustic_score"] / num_tokens,
        # Whisper's sign of a text that repeats itself: openai/whisper, utils.py.
        "compression_ratio": round(len(encoded) / len(zlib.compress(encoded)), 3),
        "no_speech_prob": 0.0 if text else 1.0,
    }
