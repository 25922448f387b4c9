"""Limits on requests, the bearer token, health checks and metrics, over HTTP."""

import base64
import contextlib
import http.client
import json
import re
import socket
import threading
import time
import urllib.parse

import local_server
import numpy as np
import programs
import pytest
import requests
import wav_files

from estimator_asr.serving.server import app, batching

PREDICT = "/v1/models/asr:predict"
MAX_BYTES = 1 << 20
INCOMPLETE = b"POST /v1/models/asr:predict HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n"


@pytest.fixture(scope="module")
def server(tiny_export):
    limits = {"max_request_mb": MAX_BYTES / 2**20, "max_body_seconds": 1.0, "max_queue_seconds": 20.0}
    with local_server.serve(tiny_export.export_dir, max_connections=20, **limits) as started:
        yield started


@pytest.fixture(scope="module")
def guarded(tiny_export):
    with local_server.serve(tiny_export.export_dir, token="secret") as started:
        yield started


@pytest.fixture
def stall(server, monkeypatch):
    """Blocks the model until the test ends, or sets the event that the fixture returns."""
    goes_on, version = threading.Event(), server.parts.versions.current
    run = version.run
    monkeypatch.setattr(version, "run", lambda *arguments: goes_on.wait(60) and run(*arguments))
    yield goes_on
    goes_on.set()


def make_instance(num_samples=16000):
    noise = np.random.default_rng(1).normal(0, 0.1, num_samples)
    return {"b64": base64.b64encode(wav_files.encode(noise)).decode()}


def count_gone(server):
    found = re.search(r'asr_requests_total{route="predict",status="499"} (.*)', server.get("/metrics").text)
    return float(found[1]) if found else 0.0


def ask(server, request: bytes) -> bytes:
    """Sends a request in one piece; returns the complete response."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request)
        return connection.makefile("rb").read()


def send_slowly(server, head, body, pause):
    """Sends a request, its body one byte at a time; returns the complete response."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head)
        try:
            for byte in body:
                connection.sendall(bytes([byte]))
                time.sleep(pause)
        except OSError:  # the server has closed the connection
            pass
        return connection.makefile("rb").read()


def test_a_body_with_too_large_a_content_length_is_refused(server):
    response = server.post(PREDICT, data=b"x" * (MAX_BYTES + 1))
    sizes = f"at least {MAX_BYTES + 1} bytes, expected at most {MAX_BYTES}"
    assert response.json() == {"error": f"the request has {sizes}; send a smaller request"}
    assert response.status_code == 413


def test_a_chunked_body_that_is_too_large_is_refused(server):
    head = b"POST /v1/models/asr:predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    said = ask(server, head + b"110000\r\n" + b"x" * 0x110000 + b"\r\n")
    assert said.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("request_line", ["POST /v1/models/asr:predict", "GET /healthz", "POST /nothing"])
def test_a_chunked_request_with_a_length_is_refused(server, request_line):
    lengths = "content-length: 5\r\ntransfer-encoding: chunked\r\n"
    # Returns only because the server closes the connection.
    said = ask(server, f"{request_line} HTTP/1.1\r\nhost: x\r\n{lengths}\r\n0\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"the request has both Content-Length and Transfer-Encoding; send only one of them" in said


MODEL = b"GET /v1/models/asr HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"  # 14 bytes of path, 20 of headers


@pytest.mark.parametrize(
    "head, num_bytes",
    [
        (MODEL + b"x: " + b"y" * 17000 + b"\r\n", 14 + 20 + 17001),
        (MODEL + b"x: y\r\n" * 8500, 14 + 20 + 17000),
        (MODEL.replace(b"/asr", b"/asr?x=" + b"y" * 17000), 14 + 2 + 17000 + 20),
        (MODEL.replace(b"/asr", b"/" + b"y" * 17000), 11 + 17000 + 20),
    ],
    ids=("one header", "many headers", "query", "path"),
)
def test_headers_that_arrive_at_once_are_limited_too(server, head, num_bytes):
    said = ask(server, head + b"\r\n")
    assert said.startswith(b"HTTP/1.1 400 ")
    got = f"the URL and headers have {num_bytes} bytes"
    assert said.endswith(f'{{"error":"{got}, expected at most 16384; shorten them"}}'.encode())


def test_headers_within_the_limit(server):
    assert ask(server, MODEL + b"x: " + b"y" * 16000 + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_headers_that_arrive_in_pieces_are_limited(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(MODEL + b"x: " + b"y" * 17000)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


UPGRADE = (
    b"GET /v1/stream HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    "head",
    [
        UPGRADE + b"x: " + b"y" * 9000 + b"\r\n",
        UPGRADE + b"x: y\r\n" * 150,
        UPGRADE.replace(b"stream", b"stream?x=" + b"y" * 9000),
        UPGRADE + b"content-length: 5\r\n",
    ],
    ids=("long header", "many headers", "long URL", "a body"),
)
def test_a_refused_upgrade_gets_a_response(server, head):
    said = ask(server, head + b"\r\n")
    assert said.startswith(b"HTTP/1.1 400 ")
    assert re.search(rb"request does not open a WebSocket \(.+\); send shorter headers and no body\n$", said)


def request_status(connection) -> int:
    connection.request("GET", "/v1/models/asr")
    response = connection.getresponse()
    response.read()
    return response.status


@pytest.mark.long
def test_an_idle_connection_of_a_proxy_is_kept(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    assert request_status(connection) == 200
    before = connection.sock
    time.sleep(6)
    assert request_status(connection) == 200
    assert connection.sock is before
    connection.close()


def test_a_body_that_arrives_too_slowly_is_refused(server):
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"
    said = send_slowly(server, head, b"x" * 30, 0.1)
    assert said.startswith(b"HTTP/1.1 408 ")
    error = json.loads(said.split(b"\r\n\r\n", 1)[1])["error"]
    assert error["message"] == "the request body is still incomplete after 1 s; send it faster, or send less"


def test_idle_connections_do_not_block_requests(server):
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert requests.get(server.url("/v1/models/asr"), timeout=10).status_code == 200


def answer_beside_slow_requests(server, num_slow):
    """Returns the response to a request while `num_slow` other requests never send their bodies."""
    with contextlib.ExitStack() as stack:
        for _ in range(num_slow):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            slow.sendall(INCOMPLETE + b"x")
        time.sleep(0.3)
        return requests.get(server.url("/v1/models"), timeout=10)


def test_too_many_open_requests_are_refused(server):
    before = server.get("/metrics").text
    response = answer_beside_slow_requests(server, num_slow=20)
    end = time.monotonic() + 30
    while response.status_code != 503:  # on a busy machine, the slow requests may have timed out
        assert time.monotonic() < end
        response = answer_beside_slow_requests(server, num_slow=20)
    assert response.headers["retry-after"] == "1"
    expected = "the server has more than 20 open requests; send the request again in 1 s"
    error = {"message": expected, "type": "server_error", "param": None, "code": None}
    assert response.json()["error"] == error
    assert len(response.headers["x-request-id"]) == 32
    refused = 'asr_requests_total{route="other",status="503"}'
    programs.wait_until(lambda: server.get("/healthz").status_code == 200)  # the slow requests have ended
    assert refused not in before and refused in server.get("/metrics").text


def test_too_many_bytes_in_memory_are_refused(server):
    server.parts.bodies.num_held += 8 * MAX_BYTES
    try:
        response = server.post(PREDICT, data=b"x")
    finally:
        server.parts.bodies.num_held -= 8 * MAX_BYTES
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    held = f"it holds {8 * MAX_BYTES} bytes of requests (limit: {8 * MAX_BYTES})"
    assert response.json()["error"] == f"the server is busy: {held}; send the request again in 1 s"


def test_bodies_are_released(server):
    server.post(PREDICT, data=b"x" * 1000)
    send_slowly(server, INCOMPLETE, b"x", 0)
    assert server.parts.bodies.num_held == 0


def test_a_client_that_disconnects_while_sending_is_not_logged_as_an_error(server, caplog):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(INCOMPLETE + b"x")
        time.sleep(0.3)
    time.sleep(0.3)
    assert 'asr_requests_total{route="predict",status="499"}' in server.get("/metrics").text
    assert server.parts.bodies.num_open == 0
    assert caplog.messages == []


@pytest.mark.long
def test_a_full_queue_refuses_and_a_stalled_worker_is_unhealthy(server, stall):
    """The queue responds 429 with Retry-After, and /healthz fails within five seconds."""
    threads = [
        threading.Thread(target=server.predict, args=({"instances": [make_instance(16000 * 9)]},))
        for _ in range(3)
    ]
    batcher = server.parts.batcher
    for number, thread in enumerate(threads):  # the worker takes the first request, and the others wait
        thread.start()
        programs.wait_until(lambda number=number: batcher.stalls_at and len(batcher.queue.items) == number)
    found = server.predict({"instances": [make_instance(16000 * 9)]})
    assert found.status_code == 429
    assert found.headers["retry-after"].isdecimal()
    queued = "18 s of audio are waiting, and this request has 9 s (limit: 20 s in total)"
    assert found.json()["error"].startswith(f"the server is busy: {queued}; send the")
    started = time.monotonic()
    response = server.get("/healthz")
    assert time.monotonic() - started < 5
    problem = "the worker did not recognise a second of audio within 4.5 s; restart the server"
    assert (response.status_code, response.json()) == (503, {"status": "failed", "error": problem})
    stall.set()
    for thread in threads:
        thread.join(60)
    assert server.get("/healthz").status_code == 200


def test_a_worker_with_a_long_batch_is_healthy(server, stall, monkeypatch):
    """At 10 s of audio per second, a batch of 30 s may take 18 s before the server counts as failed."""
    monkeypatch.setattr(app, "_HEALTH_SECONDS", 0.5)
    monkeypatch.setattr(app, "_SHARED_SECONDS", 0.0)
    monkeypatch.setattr(server.parts.batcher.queue, "rate", 10.0)
    long = {"instances": [make_instance(16000 * 30)]}
    thread = threading.Thread(target=server.predict, args=(long,))
    thread.start()
    time.sleep(0.3)
    response = server.get("/healthz")
    version = server.parts.versions.current.number
    assert (response.status_code, response.json()) == (200, {"status": "busy", "version": version})
    monkeypatch.setattr(batching.Batcher, "stalls_at", 0.0)  # as if the batch had taken too long
    assert server.get("/healthz").status_code == 503
    stall.set()
    thread.join(60)
    assert server.get("/healthz").json()["status"] == "ok"


def test_requests_of_disconnected_clients_are_not_recognised(server, stall):
    before = count_gone(server)
    body = json.dumps({"instances": [make_instance()]}).encode()
    head = f"POST {PREDICT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    for _ in range(2):  # the worker takes the first request
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head + body)
            time.sleep(0.5)
    time.sleep(0.5)
    stall.set()
    assert server.get("/healthz").status_code == 200
    assert count_gone(server) == before + 2


def test_health(server, tiny_export):
    version = tiny_export.version_dir.rsplit("/", 1)[1]
    assert server.get("/healthz").json() == {"status": "ok", "version": version}


@pytest.mark.parametrize(
    "path, status, error",
    [
        ("/healthz", 503, "the worker cannot recognise a second of audio (no memory); restart the server"),
        (PREDICT, 500, "the server failed (RuntimeError); see its log for details"),
    ],
)
def test_a_model_that_fails(server, monkeypatch, path, status, error):
    def fail(*_):
        raise RuntimeError("no memory")

    monkeypatch.setattr(app, "_SHARED_SECONDS", 0.0)
    monkeypatch.setattr(server.parts.versions.current, "run", fail)
    response = server.predict({"instances": [make_instance()]}) if path == PREDICT else server.get(path)
    assert (response.status_code, response.json()["error"]) == (status, error)


def test_metrics(server):
    server.predict({"instances": [make_instance(), {"b64": "UklG"}]})
    text = server.get("/metrics").text
    for line in (
        'asr_requests_total{route="predict",status="200"}',
        'asr_request_seconds_bucket{le="0.5",route="predict"}',
        'asr_utterances_total{status="malformed"}',
        "asr_batch_size_bucket",
        "asr_audio_seconds_total",
        "asr_queue_length 0.0",
        "asr_queue_audio_seconds 0.0",
        "process_resident_memory_bytes",
        "process_open_fds",
        "python_info{",
    ):
        assert line in text, line
    (version,) = re.findall(r"^asr_model_version (.*)$", text, re.MULTILINE)
    assert float(version) == int(server.parts.versions.current.number)


def test_the_page_and_its_files(server):
    page = server.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["x-content-type-options"] == "nosniff"
    unread, read = {"/"}, {}
    while unread:
        path = unread.pop()
        read[path] = server.get(path)
        links = re.findall(r"""(?:src=|href=|from |URL\()"(?!data:)([^"]+)\.(js|css)""", read[path].text)
        found = {urllib.parse.urljoin(path, ".".join(link)) for link in links}
        unread |= found - read.keys()
    assert {"/page/app.js", "/page/shared/recorder.js", "/page/shared/style.css"} < read.keys()
    assert {response.status_code for response in read.values()} == {200}
    for path in ("/page/..%2fapp.py", "/page/../app.py", "/page/missing.js"):
        assert server.get(path).status_code == 404


def test_pages_of_other_sites_cannot_read_responses(server):
    response = server.get("/v1/models/asr", headers={"origin": "https://example.com"})
    assert not [name for name in response.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "authorization", [None, "secret", "Bearer", "Bearer other", "Basic secret", "Bearer é"]
)
def test_requests_without_the_token_are_refused(guarded, authorization):
    headers = {"authorization": authorization.encode()} if authorization else {}
    for path in ("/v1/models/asr", "/v1/models", "/metrics", "/nothing"):
        response = guarded.get(path, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
    message = "the bearer token is missing or wrong; send the token from the server's --token_file"
    assert guarded.get("/v1/models/asr", headers=headers).json() == {"error": message}
    assert guarded.get("/v1/models", headers=headers).json()["error"]["message"] == message


def test_requests_with_the_token_are_accepted(guarded):
    assert guarded.get("/v1/models/asr", headers={"authorization": "Bearer secret"}).status_code == 200
    for path in ("/healthz", "/", "/page/app.js"):
        assert guarded.get(path).status_code == 200
