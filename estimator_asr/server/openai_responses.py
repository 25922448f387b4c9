"""Responses of OpenAI's transcriptions: json, text, srt, vtt, verbose_json."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from starlette import responses

from estimator_asr.saved_model import statuses
from estimator_asr.server import openai_form
from estimator_asr.transcripts import captions

_CAPTIONS = {"text": captions.to_text, "srt": captions.to_srt, "vtt": captions.to_vtt}
_MEDIA_TYPES = {"text": "text/plain", "srt": "text/plain", "vtt": "text/vtt"}
_NOTHING = {**captions.join([]), "status": statuses.SILENT, "n_best": []}


def make(
    form: openai_form.Form, segments: Sequence[captions.Segment], seconds: float, language: str
) -> responses.Response:
    """Returns the response for a recording of so many seconds; no segments: it has no speech.

    `language` is that of the model.
    """
    if form.response_format in _CAPTIONS:
        text = _CAPTIONS[form.response_format](segments)
        return responses.Response(text, media_type=_MEDIA_TYPES[form.response_format])
    joined = captions.join(segments) if segments else _NOTHING
    if form.response_format == "json":
        return responses.JSONResponse({"text": joined["transcript"]})
    return responses.JSONResponse(_describe(form, segments, joined, seconds, language))


def _describe(form, segments, joined: dict, seconds: float, language: str) -> dict:
    """verbose_json, with the outputs of this project beside OpenAI's: status, pinyin and so on."""
    content = {
        "task": "transcribe",
        "language": language,
        "duration": round(seconds, 3),
        "text": joined["transcript"],
        **{name: joined[name] for name in ("status", "pinyin", "confidence", "characters", "n_best")},
    }
    if "word" in form.granularities:
        content["words"] = [
            {"word": each["character"], "start": each["start"], "end": each["end"]}
            for each in joined["characters"]
        ]
    if "segment" in form.granularities or not form.granularities:
        content["segments"] = [_describe_segment(i, each) for i, each in enumerate(segments)]
    return content


def _describe_segment(index: int, segment: captions.Segment) -> dict:
    text = segment.result["transcript"]
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
        "compression_ratio": round(_compression_ratio(text), 3),
        "no_speech_prob": 0.0 if text else 1.0,
    }


def _compression_ratio(text: str) -> float:
    """Whisper's sign of a text that repeats itself: openai/whisper, utils.py."""
    encoded = text.encode()
    return len(encoded) / len(zlib.compress(encoded))
