"""OpenAI's audio transcription API, so that OpenAI clients work with this server.

https://platform.openai.com/docs/api-reference/audio
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Sequence
from typing import Optional

from starlette import requests, responses, routing

from estimator_asr.exporting.saved_model import recogniser, statuses
from estimator_asr.serving.server import api_errors, openai_request, served_version, service, tensorflow_api
from estimator_asr.serving.transcripts import captions, written_text
from tfrecord_builder import errors

_AS_TEXT = {"text": captions.to_text, **captions.CAPTIONS}
_UNBUFFERED = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # x-accel-buffering is for nginx
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
            body.clear()  # frees memory; the form has its own copy of the file
            version = self._parts.versions.current
            with version.used():
                decoding = self._parts.decoder.decode(form.content, version.sample_rate)
                upload = await service.while_connected(request, decoding)
                batch = [version.make_item(piece.waveform, form.hotwords) for piece in upload.pieces]
                punctuate = None if form.is_plain else version.punctuate
                if form.is_streamed:
                    return await _stream(self._parts, version, batch, punctuate)
                results = await self._parts.recognise(request, batch)
                for result in results if upload.is_unfinished else ():
                    is_ok = result["status"] == statuses.OK
                    result["status"] = statuses.UNFINISHED if is_ok else result["status"]
                rows = zip(upload.pieces, results)
                segments = [captions.make_segment(piece, version.sample_rate, row) for piece, row in rows]
                transcript = captions.Transcript("", segments)
                if punctuate:
                    transcript = await asyncio.to_thread(written_text.add, transcript, punctuate)
        return _respond(form, version, transcript, upload.seconds)


async def _stream(
    parts: service.Service,
    version: served_version.ServedVersion,
    batch: Sequence[served_version.QueuedUtterance],
    punctuate: Optional[recogniser.Recogniser],
) -> responses.Response:
    """Returns server-sent events: each segment's text once it has been recognised, then the whole text.

    Unless `punctuate` is None, marks are added to each segment without regard to its neighbours.
    https://platform.openai.com/docs/api-reference/audio/transcript-text-delta-event
    """

    async def recognise():
        with version.used(), parts.bodies.counted():
            await parts.batcher.recognise(batch)

    async def list_events():
        text = ""
        try:
            for item in batch:
                await asyncio.wait([recognition, item.result], return_when=asyncio.FIRST_COMPLETED)
                if recognition.done():
                    recognition.result()  # raises the exception if an item has failed
                result = item.result.result()
                parts.metrics.utterances.labels(result["status"]).inc()
                segment = captions.TranscriptSegment(0.0, item.seconds, result)
                shown = written_text.write(segment, punctuate.form) if punctuate else segment
                longer = captions.join_texts([text, shown.result["transcript"]])
                yield {"type": "transcript.text.delta", "delta": longer[len(text) :]}
                text = longer
            yield {"type": "transcript.text.done", "text": text}
        except (api_errors.ApiError, errors.UserError) as error:
            yield {"error": {"message": str(error)}}
        except Exception:
            yield {"error": {"message": api_errors.FAILED}}
            raise
        finally:
            recognition.cancel()

    recognition = asyncio.ensure_future(recognise())
    await asyncio.sleep(0)  # lets recognise() run until the batch is queued or refused
    if recognition.done():
        recognition.result()
    events = (f"data: {json.dumps(event, ensure_ascii=False)}\n\n" async for event in list_events())
    return responses.StreamingResponse(events, headers=_UNBUFFERED, media_type="text/event-stream")


def _respond(
    form: openai_request.Form,
    version: served_version.ServedVersion,
    transcript: captions.Transcript,
    seconds: float,
) -> responses.Response:
    """Returns the response for a recording that lasts `seconds`; the transcript may have no segments."""
    if form.response_format in _AS_TEXT:
        media_type = "text/vtt" if form.response_format == "vtt" else "text/plain"
        return responses.Response(_AS_TEXT[form.response_format](transcript.shown), media_type=media_type)
    content = describe(version, form.granularities, transcript, seconds)
    if form.response_format == "json":
        content = {"text": content["text"]}
    return responses.JSONResponse(content)


def describe(
    version: served_version.ServedVersion,
    granularities: Sequence[str],
    transcript: captions.Transcript,
    seconds: float,
) -> dict:
    """Returns the verbose_json response: OpenAI's fields, and this project's own fields, such as pinyin.

    If `text` has marks, the field `transcript` contains the text without them.
    """
    # A model of characters or subwords may be for any language, but pinyin is always Chinese.
    is_chinese = bool(version.info.language) or version.info.token_type not in ("character", "bpe")
    language = "zh" if is_chinese else "und"  # ISO 639: undetermined
    joined = captions.join(transcript.segments) if transcript.segments else _NOTHING
    names = ("status", "pinyin", "confidence", "characters", "n_best")
    content = {
        **{"task": "transcribe", "language": language, "duration": round(seconds, 3)},
        **{"text": captions.join_transcripts(transcript.shown), **{name: joined[name] for name in names}},
    }
    if transcript.written is not None:
        content["transcript"] = joined["transcript"]
    if "word" in granularities:
        content["words"] = [
            {"word": item["character"], "start": item["start"], "end": item["end"]}
            for item in captions.list_characters(transcript.shown)
        ]
    if "segment" in granularities or not granularities:
        content["segments"] = list(
            map(_describe_segment, range(len(transcript.segments)), transcript.segments, transcript.shown)
        )
    return content


def _describe_segment(
    index: int, segment: captions.TranscriptSegment, shown: captions.TranscriptSegment
) -> dict:
    text = shown.result["transcript"]
    encoded = text.encode()
    num_tokens = max(1, len(segment.result["characters"]))
    return {
        "id": index,
        "seek": round(100 * segment.start),  # frames of 10 ms, as in Whisper
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": text,
        "tokens": [],  # empty: OpenAI's tokens are ids in Whisper's vocabulary
        "temperature": 0.0,
        "avg_logprob": segment.result["acoustic_score"] / num_tokens,
        # Whisper's measure of repetition in a text, from utils.py in openai/whisper.
        "compression_ratio": round(len(encoded) / len(zlib.compress(encoded)), 3),
        "no_speech_prob": 0.0 if text else 1.0,
    }
