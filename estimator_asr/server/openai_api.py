"""OpenAI's audio transcriptions, so that its clients work with this server.

https://platform.openai.com/docs/api-reference/audio
"""

from __future__ import annotations

import numpy as np
from starlette import requests, responses, routing

from estimator_asr.server import (
    api_errors,
    items,
    openai_form,
    openai_responses,
    served_version,
    service,
    tensorflow_api,
)
from estimator_asr.transcripts import captions, pauses


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
            form = await openai_form.parse(body, request.headers)
            body.clear()  # the form has a copy of the file
            with self._parts.versions.current.used() as version:
                decoding = self._parts.decoder.decode(form.content, version.sample_rate)
                upload = await service.while_connected(request, decoding)
                batch = [_make_item(version, piece, form.hotwords) for piece in upload.pieces]
                rows = await self._parts.recognise(request, batch)
        segments = [_make_segment(*each, version.sample_rate) for each in zip(upload.pieces, rows)]
        return openai_responses.make(form, segments, upload.seconds, version.language)


def _make_item(
    version: served_version.ServedVersion, piece: pauses.Piece, hotwords: tuple[str, ...]
) -> items.Item:
    signature = f"waveform_{served_version.HOTWORDS}" if hotwords else "waveform"
    if signature not in version.definitions:
        raise api_errors.refuse(
            "hotwords: the model takes none, expected a model of syllables that searches with a beam; "
            "leave them out"
        )
    row = {"waveform": piece.waveform, "num_samples": np.int32(len(piece.waveform))}
    return items.Item(
        items.Group(version, signature, hotwords), row, len(piece.waveform) / version.sample_rate
    )


def _make_segment(piece: pauses.Piece, row: dict, sample_rate: int) -> captions.Segment:
    end = piece.start + len(piece.waveform)
    return captions.Segment(piece.start / sample_rate, end / sample_rate, served_version.to_result(row))
