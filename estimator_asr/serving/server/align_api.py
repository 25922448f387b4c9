"""The route /v1/align, which finds when each character of a text is spoken in a recording."""

from __future__ import annotations

import asyncio

import numpy as np
from starlette import requests, responses, routing

from estimator_asr.serving.alignment import texts
from estimator_asr.serving.server import api_errors, openai_request, served_version, service, uploads

_SIGNATURE = "align"


def make_route(parts: service.Service) -> routing.Route:
    """Returns the route /v1/align, which takes a form with the fields file and text."""

    async def align(request: requests.Request) -> responses.Response:
        async with parts.bodies.read(request) as body:
            form = await openai_request.parse(body, request.headers)
            body.clear()  # frees memory; the form has its own copy of the file
            version = parts.versions.current
            with version.used():
                labels = await asyncio.to_thread(_label, version, form.text)
                decoding = parts.decoder.decode(form.content, version.sample_rate)
                upload = await service.while_connected(request, decoding)
                item = _make_item(version, upload, labels.tokens)
                (result,) = await parts.recognise(request, [item])
        characters = labels.characters or labels.tokens
        rows = [{"character": character, **token} for character, token in zip(characters, result["tokens"])]
        content = {"status": result["status"], "duration": round(upload.seconds, 3), "characters": rows}
        return responses.JSONResponse(content)

    return routing.Route("/v1/align", align, methods=["POST"])


def _label(version: served_version.ServedVersion, text: str):
    if _SIGNATURE not in version.definitions:
        raise api_errors.refuse(
            "the model was exported by an earlier release, which cannot align text; export it again with "
            "python -m estimator_asr.export"
        )
    labels = texts.make_labeller(version.info.token_type)(text)
    if not labels.tokens:
        raise api_errors.refuse("the form has no words in its field text; send what is said", "text")
    return labels


def _make_item(version, upload: uploads.Upload, tokens) -> served_version.QueuedUtterance:
    """Returns an item for the whole recording; the pauses that the decoder has removed become silence."""
    limit = version.info.max_seconds
    if upload.seconds > limit:
        raise api_errors.refuse(
            f"file: audio lasts {upload.seconds:.0f} s, but text can be aligned with at most {limit} s; send "
            "a part, or use python -m estimator_asr.align"
        )
    waveform = np.zeros(round(upload.seconds * version.sample_rate), np.float32)
    for piece in upload.pieces:
        waveform[piece.start : piece.start + len(piece.waveform)] = piece.waveform
    row = {"waveform": waveform, "num_samples": np.int32(len(waveform)), "tokens": " ".join(tokens).encode()}
    return served_version.QueuedUtterance(served_version.Group(version, _SIGNATURE), row, upload.seconds)
