"""Request ids in responses and in the log, and requests from pages of other sites."""

import asyncio
import functools
import json
import re

import local_server
import programs
import pytest
from starlette import responses

from estimator_asr.serving.server import metrics, middleware

WELL_FORMED = ["meeting-7", "a", "0f3c:1.2_3-4", "x" * 128]
BADLY_FORMED = [None, "", "x" * 129, "two words", "a\tb", '"a"', "é", "a;b"]


@pytest.fixture(scope="module")
def server(tiny_export):
    with local_server.serve(tiny_export.export_dir, token="secret") as started:
        yield started


def ask(server, request_id, path="/v1/models/asr"):
    headers = {"authorization": "Bearer secret"}
    if request_id is not None:
        headers["x-request-id"] = request_id.encode()
    return server.get(path, headers=headers)


@pytest.mark.parametrize("request_id", WELL_FORMED)
@pytest.mark.parametrize("path", ["/v1/models/asr", "/nothing", "/", "/healthz"])
def test_the_id_of_the_client_is_returned(server, path, request_id):
    assert ask(server, request_id, path).headers["x-request-id"] == request_id


@pytest.mark.parametrize("request_id", BADLY_FORMED)
def test_other_requests_get_a_new_id(server, request_id):
    found = [ask(server, request_id).headers["x-request-id"] for _ in range(2)]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in found)
    assert found[0] != found[1]


def test_refused_requests_have_an_id(server):
    response = server.get("/v1/models/asr", headers={"x-request-id": "meeting-7"})
    assert (response.status_code, response.headers["x-request-id"]) == (401, "meeting-7")


def test_the_traceback_of_a_failed_request_is_found_by_its_id(server, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("no memory")

    monkeypatch.setattr(server.parts.versions.current, "run", fail)
    headers = {"authorization": "Bearer secret"}
    content = {"signature_name": "waveform", "instances": [{"waveform": [0.1] * 16000, "num_samples": 16000}]}
    response = server.post("/v1/models/asr:predict", json=content, headers=headers)
    assert response.status_code == 500
    said = f"POST /v1/models/asr:predict: status is 500, request id is {response.headers['x-request-id']}"
    programs.wait_until(lambda: said in caplog.messages)  # the log is written after the response is sent
    record = caplog.records[caplog.messages.index(said)]
    assert record.levelname == "ERROR"
    assert "no memory" in str(record.exc_info[1])


def test_successful_and_refused_requests_are_not_logged(server, caplog):
    for path in ("/v1/models/asr", "/nothing", "/v1/models/x"):
        ask(server, "meeting-7", path)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 200),  # not a browser
        ({"sec-fetch-site": "same-origin", "origin": "https://proxy"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://own"}, 200),  # an older browser
        ({"origin": "http://evil"}, 403),
        ({"origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_pages_of_other_sites_may_not_send_requests(method, headers, status):
    async def respond(scope, receive, send):
        await responses.Response("done")(scope, receive, send)

    async def send(message):
        sent.append(message)

    sent, raw = [], [(name.encode(), value.encode()) for name, value in {"host": "own", **headers}.items()]
    scope = {"type": "http", "method": method, "path": "/v1/audio/transcriptions", "headers": raw}
    check = functools.partial(middleware.check, None, None)
    observed = middleware.Observed(respond, metrics.Metrics(), check, 1)
    asyncio.run(observed(scope, None, send))
    assert sent[0]["status"] == (status if method == "POST" else 200)
    if sent[0]["status"] == 403:
        origin = headers.get("origin", "unknown")
        expected = f"requests from pages of other sites ({origin!r}) are refused; "
        assert json.loads(sent[1]["body"])["error"]["message"].startswith(expected)
