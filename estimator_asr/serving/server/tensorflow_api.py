"""TensorFlow Serving's REST API for one model: status, metadata and predict.

https://www.tensorflow.org/tfx/serving/api_rest
"""

from __future__ import annotations

import asyncio
import inspect
import json
import struct
from collections.abc import Mapping, Sequence
from concurrent import futures

import numpy as np
from google.protobuf import json_format
from starlette import requests, responses, routing

from estimator_asr.exporting.saved_model import statuses
from estimator_asr.serving.server import api_errors, served_version, service, tensorflow_request, uploads
from tfrecord_builder.audio import frontend

MODEL = "asr"
_PARSERS = 2  # number of threads that parse large requests
# An argument of MessageToDict has the first name in protobuf 5 and later, and the second in earlier releases.
_PRINT_ALL = ("always_print_fields_with_no_presence", "including_default_value_fields")
_LOWEST_SCORE = float(str(np.finfo(np.float32).min))  # pads n_best.score, as in the graph
_SECONDS_PER_TOKEN = 0.2  # each token of a text input (pinyin) counts as this many seconds of audio


class TensorFlowApi:
    """The routes under /v1/models/asr."""

    def __init__(self, parts: service.Service):
        self._parts, self._parsers = parts, futures.ThreadPoolExecutor(_PARSERS)

    def list_routes(self) -> list[routing.Route]:
        routes = []
        for path in ("/v1/models/{model}", "/v1/models/{model}/versions/{version}"):
            routes += [
                routing.Route(f"{path}:predict", self.predict, methods=["POST"]),
                routing.Route(f"{path}/metadata", self.show_metadata, methods=["GET"]),
                routing.Route(path, self.show_status, methods=["GET"]),
            ]
        return routes

    async def show_status(self, request: requests.Request) -> responses.Response:
        version = self._find(request)
        status = {
            "version": version.number,
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return responses.JSONResponse({**describe(version), "model_version_status": [status]})

    async def show_metadata(self, request: requests.Request) -> responses.Response:
        version = self._find(request)
        definitions = {name: _to_dict(signature) for name, signature in version.definitions.items()}
        return responses.JSONResponse(
            {
                "model_spec": {"name": MODEL, "signature_name": "", "version": version.number},
                "metadata": {"signature_def": {"signature_def": definitions}},
            }
        )

    async def predict(self, request: requests.Request) -> responses.Response:
        async with self._parts.bodies.read(request) as body:
            with self._find(request).used() as version:
                arguments = body, version, self._parts.limits.max_audio_seconds
                if len(body) <= uploads.SMALL_BYTES:
                    call, seconds = _read(*arguments)
                else:
                    loop = asyncio.get_running_loop()
                    call, seconds = await loop.run_in_executor(self._parsers, _read, *arguments)
                body.clear()
                group = served_version.Group(version, call.signature, call.hotwords)
                batch = [served_version.QueuedUtterance(group, *pair) for pair in zip(call.rows, seconds)]
                results = await self._parts.recognise(request, batch)
        return responses.Response(format_response(call, results), media_type="application/json")

    def _find(self, request: requests.Request) -> served_version.ServedVersion:
        """Returns the current version; raises api_errors.ApiError if the path names another one."""
        current = self._parts.versions.current
        model, number = request.path_params["model"], request.path_params.get("version", current.number)
        if model != MODEL:
            raise api_errors.ApiError(404, f"model is {model[:80]!r}, expected {MODEL!r}")
        if number != current.number:
            message = f"version is {number[:80]!r}, expected the current version, {current.number!r}"
            raise api_errors.ApiError(404, message)
        return current


def describe(version: served_version.ServedVersion) -> dict:
    """Returns OpenAI's model object, whose fields TensorFlow Serving's status response also contains."""
    created = int(version.number or 0)  # version numbers are seconds since 1970
    return {"id": MODEL, "object": "model", "created": created, "owned_by": "estimator_asr"}


def measure_seconds(row: Mapping, config: frontend.FrontendConfig) -> float:
    """Returns the seconds of audio in one row of inputs; the length of a WAV file comes from its header."""
    if "wav_bytes" in row:
        return _measure_wav(row["wav_bytes"], config.sample_rate)
    if "waveform" in row:
        return len(row["waveform"]) / config.sample_rate
    if "fbank" in row:
        subsampling = config.encoder.encoder.subsampling if config.encoder else 1
        return len(row["fbank"]) * config.hop_ms * subsampling / 1000
    return _SECONDS_PER_TOKEN * sum(len(value.split()) for value in row.values() if isinstance(value, bytes))


def format_response(call: tensorflow_request.Call, results: Sequence[Mapping]) -> bytes:
    """Returns the JSON response for all rows, whose `results` come from served_version.ServedVersion.run."""
    columns = {name: _make_column(name, results) for name in call.outputs}
    only = next(iter(columns)) if len(columns) == 1 else None
    if call.is_columnar:
        content = {"outputs": columns[only] if only else columns}
    else:
        rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
        content = {"predictions": columns[only] if only else rows}
    return json.dumps(content, ensure_ascii=False).encode()


def _make_column(name: str, results: Sequence[Mapping]) -> list:
    """Returns one output for all rows; lists of characters or transcripts are padded, as in the graph."""
    group, _, field = name.partition(".")
    if not field:
        return [result[name] for result in results]
    lists = [[item[field] for item in result[group]] for result in results]
    longest = max(lists, key=len, default=[])
    if not longest:
        return lists
    padding = _LOWEST_SCORE if name == "n_best.score" else type(longest[0])()
    return [values + [padding] * (len(longest) - len(values)) for values in lists]


def _read(
    body: bytearray, version: served_version.ServedVersion, max_seconds: float
) -> tuple[tensorflow_request.Call, list[float]]:
    """Returns a parsed request and the seconds of audio in each row."""
    call = tensorflow_request.parse(body, version.definitions)
    longest = version.info.max_seconds
    seconds = [min(longest, measure_seconds(row, version.info.frontend)) for row in call.rows]
    limit = max(max_seconds, longest)
    if sum(seconds) > limit:
        raise api_errors.refuse(
            f"the request has {sum(seconds):.0f} s of audio (limit: {limit:g} s); send fewer utterances"
        )
    return call, seconds


def _measure_wav(content: bytes, sample_rate: int) -> float:
    """Returns the length of a WAV file in seconds; if the header is invalid, assumes 8-bit mono audio.

    Like the model (saved_model/wav.py), this function uses the first format chunk, and reads at most
    MAX_CHUNKS chunks, so that no header can make long audio look short. libsndfile is not used, because it
    refuses files that the model reads, and relies on other size fields.
    """
    bytes_per_second, start = 0, 12
    for _ in range(statuses.MAX_CHUNKS):
        if start + 24 > len(content):
            break
        name, size = struct.unpack_from("<4sI", content, start)
        if name == b"fmt " and size >= 16:
            _, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content, start + 8)
            bytes_per_second = channels * rate * max(bits, 8) // 8
            break
        start += 8 + size + size % 2
    return len(content) / (bytes_per_second or sample_rate)


def _to_dict(definition) -> dict:
    parameters = inspect.signature(json_format.MessageToDict).parameters
    name = next(name for name in _PRINT_ALL if name in parameters)
    return json_format.MessageToDict(definition, preserving_proto_field_name=True, **{name: True})
