"""TensorFlow Serving's REST API for one model: its status, its metadata, and predict.

https://www.tensorflow.org/tfx/serving/api_rest
"""

from __future__ import annotations

import inspect

from google.protobuf import json_format
from starlette import requests, responses, routing

from estimator_asr.server import (
    api_errors,
    item_seconds,
    items,
    served_version,
    service,
    tensorflow_json,
    tensorflow_responses,
)

MODEL = "asr"
_HAS_PRESENCE_ARGUMENT = (
    "always_print_fields_with_no_presence" in inspect.signature(json_format.MessageToDict).parameters
)  # its name since protobuf 5


class TensorFlowApi:
    """The routes below /v1/models/asr."""

    def __init__(self, parts: service.Service):
        self._parts = parts

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
        definitions = {name: _to_dict(each) for name, each in version.definitions.items()}
        return responses.JSONResponse(
            {
                "model_spec": {"name": MODEL, "signature_name": "", "version": version.number},
                "metadata": {"signature_def": {"signature_def": definitions}},
            }
        )

    async def predict(self, request: requests.Request) -> responses.Response:
        async with self._parts.bodies.read(request) as body:
            with self._find(request).used() as version:
                call = await self._parts.parsers.parse(tensorflow_json.parse, body, version.definitions)
                body.clear()
                batch = _make_items(version, call, self._parts.limits.max_audio_seconds)
                results = await self._parts.recognise(request, batch)
        content = tensorflow_responses.format(call, results)
        return responses.Response(content, media_type="application/json")

    def _find(self, request: requests.Request) -> served_version.ServedVersion:
        """Returns the version that a path names.

        Raises:
            api_errors.ApiError: another model or version is served.
        """
        current = self._parts.versions.current
        model, number = request.path_params["model"], request.path_params.get("version", current.number)
        if model != MODEL:
            raise api_errors.ApiError(404, f"model: is {model[:80]!r}, expected {MODEL!r}; ask for that")
        if number != current.number:
            message = f"version: is {number[:80]!r}, expected {current.number!r}; ask for that"
            raise api_errors.ApiError(404, message)
        return current


def describe(version: served_version.ServedVersion) -> dict:
    """Returns the model as OpenAI's API has it, whose clients ask for the path of the status."""
    created = int(version.number or 0)  # versions are seconds since 1970
    return {"id": MODEL, "object": "model", "created": created, "owned_by": "estimator_asr"}


def _to_dict(definition) -> dict:
    name = (
        "always_print_fields_with_no_presence" if _HAS_PRESENCE_ARGUMENT else "including_default_value_fields"
    )
    return json_format.MessageToDict(definition, preserving_proto_field_name=True, **{name: True})


def _make_items(
    version: served_version.ServedVersion, call: tensorflow_json.Call, max_seconds: float
) -> list[items.Item]:
    group, longest = items.Group(version, call.signature, call.hotwords), version.info.max_seconds
    seconds = [
        min(longest, item_seconds.measure(f"instances[{i}]", row, version.info.frontend))
        for i, row in enumerate(call.rows)
    ]
    limit = max(max_seconds, longest)
    if sum(seconds) > limit:
        raise api_errors.refuse(
            f"request: has {sum(seconds):.0f} s of audio, expected at most {limit:g} s; send fewer utterances"
        )
    return [items.Item(group, *each) for each in zip(call.rows, seconds)]
