"""Messages from clients of /v1/stream: samples, and commands in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import soxr

from estimator_asr.exporting.saved_model import statuses
from estimator_asr.serving.server import api_errors, openai_request
from estimator_asr.serving.transcripts import file_headers, written_text

_MAX_MESSAGE_BYTES = 1 << 18
_ENCODINGS = {"s16le": ("<i2", 1 / 32768), "f32le": ("<f4", 1.0)}  # dtype and scale of the samples
_RATES = range(8000, 192001)  # Hz
_ADVICE = "send only the samples of one channel, or send the whole file to /v1/audio/transcriptions"


class Audio:
    """Decodes the samples in one stream's messages; `rate` is the stream's sample rate in Hz."""

    def __init__(self, query: Mapping[str, str]):
        """Reads the URL's query; raises ApiError if the encoding or sample rate is not supported."""
        encoding, rate = query.get("encoding", "s16le"), query.get("sample_rate", "16000")
        if encoding not in _ENCODINGS:
            expected = " or ".join(_ENCODINGS)
            raise api_errors.refuse(f"encoding is {encoding[:80]!r}, expected {expected}")
        if not (rate.isascii() and rate.isdecimal() and len(rate) < 7 and int(rate) in _RATES):
            problem = f"sample_rate is {rate[:80]!r}, expected {_RATES[0]} to {_RATES[-1]} Hz"
            raise api_errors.refuse(f"{problem}; send the sample rate of the audio")
        (self._dtype, self._scale), self.rate = _ENCODINGS[encoding], int(rate)
        wav_rate = self.rate if encoding == "s16le" else 0
        self._filter = file_headers.HeaderFilter(wav_rate, "the message", _ADVICE)

    def read(self, content: bytes) -> np.ndarray:
        """Returns a message's samples, float32 [num_samples]. Invalid samples raise ApiError or UserError."""
        content = self._filter.take(content)
        width = np.dtype(self._dtype).itemsize
        if len(content) > _MAX_MESSAGE_BYTES or len(content) % width:
            expected = f"a multiple of {width} up to {_MAX_MESSAGE_BYTES}"
            raise api_errors.refuse(
                f"the message has {len(content)} bytes, expected {expected}; send whole samples"
            )
        samples = np.frombuffer(content, self._dtype).astype(np.float32) * np.float32(self._scale)
        if not np.isfinite(samples).all() or np.max(np.abs(samples), initial=0) > statuses.LOUDEST_PEAK:
            raise api_errors.refuse(f"the message {statuses.NOT_FINITE_PROBLEM}; send finite samples")
        return samples

    def make_resampler(self, sample_rate: int) -> Callable[..., np.ndarray]:
        """Returns a function resample(samples, last=False) that resamples one stream to `sample_rate` Hz."""
        if self.rate == sample_rate:
            return lambda samples, last=False: samples
        return soxr.ResampleStream(self.rate, sample_rate, 1, dtype="float32").resample_chunk


def read_text_form(query: Mapping[str, str]) -> str:
    """Returns the text form requested in the URL's query; raises ApiError if it is not supported."""
    form = query.get("text_form", written_text.WRITTEN)
    if form not in written_text.FORMS:
        expected = " or ".join(written_text.FORMS)
        raise api_errors.refuse(f"text_form is {form[:80]!r}, expected {expected}; fix or omit the parameter")
    return form


class Command(NamedTuple):
    """A JSON message: hotwords, which a client sends before its audio, or the end of the audio."""

    hotwords: tuple[str, ...]
    is_end: bool


def read_command(text: str) -> Command:
    """Parses a text message; raises ApiError or UserError if the message or a hotword is invalid."""
    try:
        content = json.loads(text if len(text) <= _MAX_MESSAGE_BYTES else "")
        if not isinstance(content, dict) or content.keys() - {"hotwords", "end"}:
            raise ValueError
        words, is_end = content.get("hotwords", ""), content.get("end", False)
        if not isinstance(words, str) or not isinstance(is_end, bool):
            raise ValueError
        words.encode()  # raises UnicodeEncodeError, a ValueError, for lone surrogates
    except (ValueError, RecursionError):
        expected = '{"hotwords": "..."} or {"end": true}'
        raise api_errors.refuse(f"the message is {text[:80]!r}, expected {expected}") from None
    return Command(openai_request.read_hotwords([words]), is_end)
