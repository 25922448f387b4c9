"""Errors in the format of each API."""

import json

import pytest

from estimator_asr.serving.server import api_errors


@pytest.mark.parametrize("path", ["/v1/models/asr", "/v1/models/asr:predict", "/nothing"])
def test_errors_in_the_format_of_tensorflow_serving(path):
    response = api_errors.respond(path, api_errors.refuse("request: is wrong"))
    assert (response.status_code, json.loads(response.body)) == (400, {"error": "request: is wrong"})


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/models", "/v1/chat/completions", "/v1/"])
@pytest.mark.parametrize(
    "status, kind", [(400, "invalid_request_error"), (429, "rate_limit_error"), (500, "server_error")]
)
def test_errors_in_the_format_of_openai(path, status, kind):
    response = api_errors.respond(path, api_errors.ApiError(status, "m"))
    content = {"error": {"message": "m", "type": kind, "param": None, "code": None}}
    assert (response.status_code, json.loads(response.body)) == (status, content)


@pytest.mark.parametrize("seconds, wait", [(0, "1"), (1.2, "2"), (10, "10")])
def test_retry_after_is_in_whole_seconds(seconds, wait):
    error = api_errors.overloaded("it is full", seconds)
    assert error.headers == {"retry-after": wait}
    assert error.message == f"the server is busy: it is full; send the request again in {wait} s"
